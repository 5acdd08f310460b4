"""Every program of the corpus and every example, run warp by warp in orders drawn from seeds: its own assertions hold, and no data race shows."""

from __future__ import annotations

import sys

import pytest
from corpus import OK, ROOT, Program

from snap import machine
from snap.ir import nodes as ir
from snap.ir.walk import callees, statements
from snap.sync import synchronize

EXAMPLES = [Program(path) for path in sorted((ROOT / "examples").glob("[a-z]*.py"))]
LONG = {"tests/ok/role_copies.py", "tests/ok/attention.py", "tests/ok/sgemm_pipelined.py"}
SLOW = {"examples/matmul_tf32.py", "examples/matmul_tiled.py", "examples/demo.py", "examples/figure6.py"}


def prints(function):
    return any(isinstance(s, ir.Print) for f in callees(function) for s in statements(f.body))


@pytest.fixture
def run(monkeypatch):
    """`run(main, seeds)`: launches on the CPU take the adversarial way."""
    synced: dict[int, tuple] = {}
    launches = []
    in_order = machine.run_reference

    def run(main, seeds):
        for seed in range(seeds):
            def adversarial(function, args, blocks, say=None, seed=seed):
                if id(function) not in synced:
                    synced[id(function)] = function, synchronize(function)
                if prints(function):  # the lines that are expected are those of one order, the reference's
                    in_order(function, [arg.copy() if hasattr(arg, "copy") else arg for arg in args], blocks, *[say] * (say is not None))
                races: list = []
                machine.run_adversarial(synced[id(function)][1], list(args), blocks, seed, races)
                assert not races, races[0]
                launches.append(function.name)

            monkeypatch.setattr(machine, "run_reference", adversarial, raising=False)
            main()
        assert launches

    return run


@pytest.mark.parametrize("program", OK, ids=lambda program: program.name)
def test_ok(program, run):
    namespace = program.execute()
    run(namespace.get("check") or namespace["main"], 1 if program.name in LONG else 3)


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.name)
def test_examples(program, run, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    try:
        run(program.execute()["main"], 1 if program.name in SLOW else 3)
    finally:
        for name in {example.path.stem for example in EXAMPLES} & set(sys.modules):
            del sys.modules[name]
