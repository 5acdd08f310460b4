"""Launches of a program, each made twice: by the CPU machine, and by its CUDA text on the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from fuzz import host
from snap.api import SnapFunction


@dataclass
class Made:
    """A launch: its kernel, the arguments before it and after it on the CPU machine."""

    kernel: SnapFunction
    blocks: int
    before: list
    after: list
    name: str


@dataclass
class Seen:
    launches: list[Made] = field(default_factory=list)


def copied(arguments) -> list:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


@contextmanager
def watched(most: int = 3) -> Iterator[Seen]:
    """While this lasts, launches on NumPy arrays are kept; of each kernel the first ones only."""
    seen, launch, item = Seen(), SnapFunction.launch, SnapFunction.__getitem__
    counts: dict[int, int] = {}

    def kept(kernel: SnapFunction, *arguments, blocks, **keywords):
        own = all(isinstance(a, (np.ndarray, bool, int, float, np.generic, tuple)) for a in arguments) and not keywords
        before = copied(arguments)
        launch(kernel, *arguments, blocks=blocks, **keywords)
        counts[id(kernel)] = counts.get(id(kernel), 0) + 1
        if own and counts[id(kernel)] <= most and isinstance(blocks, int):
            seen.launches.append(Made(kernel, blocks, before, copied(arguments), kernel.__wrapped__.__name__))

    SnapFunction.launch = kept
    SnapFunction.__getitem__ = lambda kernel, blocks: lambda *arguments, **keywords: kept(kernel, *arguments, blocks=blocks, **keywords)
    try:
        yield seen
    finally:
        SnapFunction.launch, SnapFunction.__getitem__ = launch, item


@contextmanager
def on_host(with_seed: int = 0) -> Iterator[list[str]]:
    """While this lasts, launches on NumPy arrays are made by their CUDA text, and not by the CPU machine; the names of what was launched."""
    launch, item, names = SnapFunction.launch, SnapFunction.__getitem__, []

    def made(kernel: SnapFunction, *arguments, blocks, target="auto", stream=None, seed=None, **keywords):
        compiled, rest = kernel._split(arguments, keywords)
        (entry,) = host.build([compiled.module])
        if isinstance(entry, Exception):
            raise entry
        host.launch(entry, compiled, blocks, rest, with_seed if seed is None else seed)
        names.append(kernel.__wrapped__.__name__)

    SnapFunction.launch = made
    SnapFunction.__getitem__ = lambda kernel, blocks: lambda *arguments, **keywords: made(kernel, *arguments, blocks=blocks, **keywords)
    try:
        yield names
    finally:
        SnapFunction.launch, SnapFunction.__getitem__ = launch, item


def difference(got: list, want: list, rtol: float = 0.0, atol: float = 0.0) -> str:
    """The first place where two launches left something else; empty where there is none.  Without tolerances bit for bit, but for the bits of a NaN."""
    for number, (a, b) in enumerate(zip(got, want)):
        if not isinstance(a, np.ndarray):
            continue
        if (rtol or atol) and a.dtype.kind == "f":
            equal = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        else:
            equal = (a == b) | (a != a) & (b != b)
        if not equal.all():
            at = np.unravel_index(int(np.argmin(equal)), a.shape)
            return f"argument {number} at {tuple(map(int, at))}: {a[at]} on the host, {b[at]} on the CPU machine ({int((~equal).sum())} differ)"
    return ""


def replay(launches: list[Made], seeds: tuple[int, ...] = (0,), rtol: float = 0.0, atol: float = 0.0) -> list[str]:
    """What went wrong when these launches are made on the host."""
    wrong = []
    made = [launch.kernel._split(tuple(launch.before), {}) for launch in launches]
    for entry, (compiled, rest), launch in zip(host.build([compiled.module for compiled, _ in made]), made, launches):
        for seed in seeds:
            got = copied(launch.before)
            try:
                if isinstance(entry, Exception):
                    raise entry
                rest = launch.kernel._split(tuple(got), {})[1]
                host.launch(entry, compiled, launch.blocks, rest, seed)
                found = difference(got, launch.after, rtol, atol)
            except (host.Failed, host.Unsupported) as reason:
                found = f"{type(reason).__name__} {reason}"
            if found:
                wrong.append(f"{launch.name}, seed {seed}: {found}")
    return wrong
