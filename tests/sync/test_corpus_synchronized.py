"""Every program of the corpus and every example, run warp by warp in orders drawn from seeds: what each launch leaves is what the reference leaves,
of which the program's own assertions hold, and no data race shows.

The races that a program itself asks for are looked for where it is run once (tests/test_corpus.py)."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from corpus import OK, ROOT, Program, synchronized

from snap import machine

EXAMPLES = [Program(path) for path in sorted((ROOT / "examples").glob("[a-z]*.py"))]
LONG = {"tests/ok/role_copies.py", "tests/ok/attention.py", "tests/ok/sgemm_pipelined.py"}
SLOW = {"examples/matmul_tf32.py", "examples/matmul_tiled.py", "examples/demo.py", "examples/figure6.py"}
SEVERAL_ANSWERS = {"tests/ok/atomics.py", "examples/shortest_paths.py"}  # which the order of threads decides: the program's assertions are asked in each order


def copies(args: list) -> list:
    return [arg.copy() if hasattr(arg, "copy") else arg for arg in args]


@pytest.fixture
def run(monkeypatch):
    """`run(main, seeds)`: launches on the CPU go the adversarial ways, too."""
    launches, in_order = [], machine.run_reference

    def scheduled(function, args, blocks, seed):
        races: list = []
        machine.run_adversarial(synchronized(function), args, blocks, seed, races)
        assert not races, races[0]
        launches.append(function.name)

    def run(main, seeds, several=False):
        def alike(function, args, blocks, say=None, only=None):
            given = copies(args)
            in_order(function, args, blocks, *[say] * (say is not None))
            for seed in range(seeds):
                scheduled(function, got := copies(given), blocks, seed)
                for ours, theirs in zip(got, args):
                    if isinstance(theirs, np.ndarray):
                        assert ours.tobytes() == theirs.tobytes(), (function.name, seed)

        monkeypatch.setattr("snap.api.SnapFunction.races", lambda *args, **options: [])
        for way in [lambda *a, s=s, **_: scheduled(*a[:3], s) for s in range(seeds)] if several else [alike]:
            monkeypatch.setattr("snap.machine.run.run_reference", way)
            main()
        assert launches

    return run


@pytest.mark.parametrize("program", OK, ids=lambda program: program.name)
def test_ok(program, run):
    namespace = program.namespace()
    run(namespace.get("check") or namespace["main"], 1 if program.name in LONG else 3, program.name in SEVERAL_ANSWERS)


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.name)
def test_examples(program, run, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    try:
        run(program.execute()["main"], 1 if program.name in SLOW else 3, program.name in SEVERAL_ANSWERS)
    finally:
        for name in {example.path.stem for example in EXAMPLES} & set(sys.modules):
            del sys.modules[name]
