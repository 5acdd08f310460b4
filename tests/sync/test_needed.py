"""A point that is taken out is missed: races show on the CPU machine."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from corpus import ROOT, Program
from dropping import points_of, without

from snap import machine
from snap.machine import MachineError
from snap.machine.reference import run_reference
from snap.sync import synchronize


def copies(args) -> list:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def goes_wrong(function, args, blocks: int, seed: int) -> bool:
    races: list = []
    try:
        machine.run_adversarial(function, copies(args), blocks, seed, races)
    except MachineError:
        return True
    return bool(races)


@pytest.fixture
def launches_of(monkeypatch, capsys):
    """Everything that an example launches: (function, arguments, blocks)."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    seen: list[tuple] = []

    def launch(function, args, blocks):
        seen.append((function, copies(args), blocks))
        run_reference(function, args, blocks)

    def run(name: str) -> list[tuple]:
        monkeypatch.setattr(machine, "run_reference", launch, raising=False)
        Program(ROOT / "examples" / f"{name}.py").execute()["main"]()
        return seen

    yield run
    for module in {path.stem for path in (ROOT / "examples").glob("*.py")} & set(sys.modules):
        del sys.modules[module]


UNDECIDED = {("figure6", "C")}  # rows of a length that is known at run time only


@pytest.mark.parametrize("name", ["reverse", "block_reduce", "transpose", "figure6"])
def test_every_point_of_the_examples_is_needed(name, launches_of):
    launches = launches_of(name)
    functions = {id(function): function for function, _, _ in launches}
    needed = 0
    for function in functions.values():
        synced = synchronize(function)
        mine = [(args, blocks) for other, args, blocks in launches if other is function]
        assert not any(goes_wrong(synced, args, blocks, 0) for args, blocks in mine)
        for point in points_of(synced):
            if (name, point.object) in UNDECIDED:
                continue
            broken = without(synced, point)
            wrong = any(goes_wrong(broken, args, blocks, seed) for seed in range(6) for args, blocks in mine)
            assert wrong, f"{name}: {point.kind} for {point.object}: {point.reason}"
            needed += 1
    assert needed
