"""The inference puts in nothing that could be left out: whichever point of whichever program of the corpus is dropped, the CPU machine finds a race, or
a hang, in some order."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from corpus import OK, ROOT, Program, synchronized
from sync.dropping import copies, goes_wrong, is_missed, points_of

from snap._compiler.ir.types import Level
from snap.machine.reference import run_reference

EXAMPLES = [Program(path) for path in sorted((ROOT / "examples").glob("[a-z]*.py")) if path.stem != "demo"]  # which shows figure 6 once more
SEEDS = 30
LAUNCHES = 3  # of each kernel, the smallest
BLOCKS = 2  # of each launch: more say nothing new about what happens inside of a block, or between two

# (program, part of the reason): why no schedule here can miss the point.
EXCEPTIONS = {
    ("sgemm_pipelined", "gone when its block exits"): "all copies have been waited for in the loop, which follows from its guard: the inference does not look into that",
    ("zero_fill", "gone when its block exits"): "the same",
    ("handed_tiles", "acquired at line 76, changed by atomics"): "an exchange whose result nobody reads: that the order matters to nobody, the inference does not know",
    ("figure6", "`C`"): "rows of a length that is known at run time only: the inference cannot decide",
    ("attention", "take turns"): "turns order when work is begun; no memory is at stake",
    ("turns", "take turns"): "the same",
    ("polling", "`x`: read at line 25"): "what a release publishes is all that was done before; that the next block reads none of it, the inference does not know",
}


@pytest.fixture
def launches_of(monkeypatch, capsys):
    """Everything that a program launches: by function, (arguments, blocks), small ones first."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    seen: dict[int, tuple] = {}

    def launch(function, args, blocks, say=None, only=None):
        seen.setdefault(id(function), (function, []))[1].append((copies(args), blocks))
        run_reference(function, args, blocks)

    def run(program: Program) -> list[tuple]:
        monkeypatch.setattr("snap.machine.run.run_reference", launch)
        monkeypatch.setattr("snap.api.SnapFunction.races", lambda *args, **options: [])  # of which only launches matter
        namespace = program.namespace()
        (namespace.get("check") or namespace["main"])()
        return [(function, _smallest(function, found)) for function, found in seen.values()]

    yield run
    for module in {path.stem for path in (ROOT / "examples").glob("*.py")} & set(sys.modules):
        del sys.modules[module]


def _smallest(function, launches: list[tuple[list, int]]) -> list[tuple[list, int]]:
    cluster = function.place.held(Level.BLOCK).count if function.place.held(Level.CLUSTER) is not None else 1
    size = lambda launch: (sum(a.nbytes for a in launch[0] if isinstance(a, np.ndarray)), launch[1])  # noqa: E731
    useful = [(args, min(blocks, max(BLOCKS, cluster or 1))) for args, blocks in sorted(launches, key=size)]
    return useful[-1:] if len(useful) <= 1 else [*useful[1 : LAUNCHES + 1], useful[0]]  # the very smallest is often a single element


@pytest.mark.parametrize("program", [*OK, *EXAMPLES], ids=lambda program: program.name)
def test_every_point_is_needed(program, launches_of):
    missed: dict[tuple, str] = {}
    idle: dict[tuple, str] = {}  # of a generic kernel, one set of values may be launched with so little to do that its loop ends at once
    for function, launches in launches_of(program):
        synced = synchronized(function)
        found = points_of(synced)
        if found:
            assert not any(goes_wrong(synced, args, blocks, 0) for args, blocks in launches)
        for point in found:
            if "maybe" in point.reason or _excepted(program, point):
                continue
            where = (function.name, point.span, point.kind, point.object)
            (missed if where in missed or is_missed(synced, point, launches, SEEDS) else idle)[where] = f"{point.kind} for {point.object}: {point.reason}"
    assert not (left := [text for where, text in idle.items() if where not in missed]), left


def _excepted(program: Program, point) -> bool:
    return any(name == program.path.stem and text in f"`{point.object}`: {point.reason}" for name, text in EXCEPTIONS)


def test_exceptions_are_still_there():
    names = {program.path.stem for program in (*OK, *EXAMPLES)}
    assert {name for name, _ in EXCEPTIONS} <= names
