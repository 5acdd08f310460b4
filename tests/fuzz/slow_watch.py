"""Launches of a program, each made twice: by the CPU machine, and by the slow interpreter on copies of the arguments."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from fuzz import slow

from snap.api import SnapFunction

NUMBERS = (bool, int, float, np.generic)


@dataclass
class Seen:
    """Launches that both made, the ones that were Unsupported with what they asked for, and where the two differ."""

    agreed: list[str] = field(default_factory=list)
    unsupported: list[tuple[str, str]] = field(default_factory=list)
    differ: list[tuple[str, str]] = field(default_factory=list)


def text_of(name: str, beside: Path | None = None) -> str | None:
    """The text of a module that a program imports from: a file beside it, or one of Snap's own library, which is written in Snap."""
    if beside is not None and (beside / f"{name}.py").exists():
        return (beside / f"{name}.py").read_text(encoding="utf-8")
    if name.startswith("snap.lib"):
        found = importlib.util.find_spec(name)
        return Path(found.origin).read_text(encoding="utf-8") if found is not None and found.origin else None
    return None


def closure_of(kernel: SnapFunction) -> dict:
    """The numbers that a kernel took from the functions around it."""
    python = kernel.__wrapped__
    cells = zip(python.__code__.co_freevars, python.__closure__ or ())
    return {name: cell.cell_contents for name, cell in cells if isinstance(cell.cell_contents, NUMBERS)}


def copied(arguments: list) -> list:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def difference(ours: list, theirs: list, rtol: float = 0.0) -> str:
    """The first place where two launches left something else; empty where there is none."""
    for number, (a, b) in enumerate(zip(ours, theirs)):
        if not isinstance(a, np.ndarray):
            continue
        equal = np.isclose(a, b, rtol=rtol, atol=0, equal_nan=True) if rtol and a.dtype.kind == "f" else (a == b) | (a != a) & (b != b)
        if not equal.all():
            at = np.unravel_index(int(np.argmin(equal)), a.shape)
            return f"argument {number} at {tuple(map(int, at))}: the slow interpreter has {a[at]}, the CPU machine {b[at]} ({int((~equal).sum())} differ)"
    return ""


@contextmanager
def watched(text: str | None = None, beside: Path | None = None, rtol: float = 0.0) -> Iterator[Seen]:
    """While this lasts, launches on NumPy arrays are made by the slow interpreter too.  text: of the program; None: of the file in which the kernel stands."""
    seen, launch, item = Seen(), SnapFunction.launch, SnapFunction.__getitem__

    def both(kernel: SnapFunction, *arguments, blocks, **keywords):
        if not all(isinstance(a, (np.ndarray, *NUMBERS)) for a in arguments):
            return launch(kernel, *arguments, blocks=blocks, **keywords)
        name, ours = kernel.__wrapped__.__name__, copied(arguments)
        launch(kernel, *arguments, blocks=blocks, **keywords)
        source = text if text is not None else Path(inspect.getsourcefile(kernel.__wrapped__)).read_text(encoding="utf-8")
        try:
            slow.run(source, name, blocks, ours, captured={**closure_of(kernel), **kernel.bound}, resolve=lambda module: text_of(module, beside))
        except slow.Unsupported as reason:
            seen.unsupported.append((name, str(reason)))
            return None
        except slow.Trap as reason:
            seen.differ.append((name, f"the slow interpreter stopped: {reason}"))
            return None
        found = difference(ours, arguments, rtol)
        if found:
            seen.differ.append((name, found))
        else:
            seen.agreed.append(name)
        return None

    SnapFunction.launch = both
    SnapFunction.__getitem__ = lambda kernel, blocks: lambda *arguments, **keywords: both(kernel, *arguments, blocks=blocks, **keywords)
    try:
        yield seen
    finally:
        SnapFunction.launch, SnapFunction.__getitem__ = launch, item
