"""Every program of the corpus, run warp by warp in orders drawn from seeds: the same results as the reference, and no data race."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from corpus import OK, ROOT, Program

from snap import machine
from snap.machine.reference import run_reference
from snap.sync import synchronize

EXAMPLES = [Program(path) for path in sorted((ROOT / "examples").glob("[a-z]*.py"))]
SEEDS = 3
LARGEST = 300_000  # blocks times threads that are still run so
# Which thread gets which ticket is the schedule's to say.
BY_CHANCE: set[str] = set()


@pytest.fixture
def adversarial(monkeypatch):
    """Launches on the CPU are made in both modes; yields what was seen."""
    seen: list[str] = []

    def both(function, args, blocks):
        synced = synchronize(function)
        threads = machine_threads(function)
        results = []
        for seed in range(SEEDS if blocks * threads <= LARGEST else 0):
            copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
            races: list = []
            machine.run_adversarial(synced, copies, blocks, seed, races)
            assert not races, races[0]
            results.append(copies)
        run_reference(function, args, blocks)
        seen.append(function.name)
        for copies in results:
            for ours, theirs in zip(copies, args):
                if isinstance(theirs, np.ndarray):
                    np.testing.assert_array_equal(ours, theirs)

    monkeypatch.setattr(machine, "run_reference", both, raising=False)
    return seen


def machine_threads(function) -> int:
    from snap.ir.types import Level

    return function.place.held(Level.THREAD).count or 1


@pytest.mark.parametrize("program", OK, ids=lambda program: program.name)
def test_ok(program, adversarial):
    namespace = program.execute()
    (namespace.get("check") or namespace["main"])()
    assert adversarial


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.name)
def test_examples(program, adversarial, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    namespace = program.execute()
    namespace["main"]()
    assert adversarial
    for name in [name for name in sys.modules if name in {p.path.stem for p in EXAMPLES}]:
        del sys.modules[name]
