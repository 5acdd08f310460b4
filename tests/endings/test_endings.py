"""The end of a block: inference, *order*, the CPU machine, the PTX machine and docs/language.md say the same.

What the inference makes, the other three accept; without the wait that keeps the block, all three refuse it.
"""

from __future__ import annotations

import re

import pytest
from corpus import ROOT
from endings.programs import ENGINES, PROGRAMS, Program
from mutations import edited

from snap import SnapError
from snap._compiler.ir import synced
from snap._compiler.ir.points import GONE
from snap.compiled import Compiled
from snap.host.launch import launch
from snap.machine import run_adversarial
from snap.prove.order.goal import order
from snap.ptx import PtxFault

SEEDS = 4
EACH = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
KEPT = [p for p in PROGRAMS.values() if p.code is None]


def compiled(program: Program) -> Compiled:
    return program.kernel()._the_one({})


def without_waits(program: Program) -> Compiled:
    """The same kernel with nothing in it that keeps the block."""
    made, wrong, found = compiled(program), None, True
    function = made.synced

    def drop(s):
        if isinstance(s, synced.Sync) and program.keeps in s.point.reason:
            yield "dropped", ()
        elif isinstance(s, synced.MBarrierWait) and program.keeps == s.barrier.name:
            yield "dropped", ()

    while found:
        found = next(edited(function, drop), None)
        if found:
            _, function = found
            wrong = function
    assert wrong is not None, "nothing keeps the block"
    made.__dict__["synced"] = wrong
    return made


def races_on_cpu(program: Program, made: Compiled) -> list[str]:
    found: list = []
    for seed in range(SEEDS):
        run_adversarial(made.synced, list(program.arguments()), program.blocks, seed, found)
    return [race.reason for race in found]


def faults_on_ptx(program: Program, made: Compiled) -> list[str]:
    pytest.importorskip("cuda.bindings.nvrtc")
    try:
        launch(made, program.arguments(), program.blocks, "ptx", None, 1, None, {"checks": ("races",)})
    except PtxFault as fault:
        return [str(one) for one in (fault, *fault.also)]
    return []


@EACH
def test_all_agree_on_what_the_inference_makes(program):
    if program.code is not None:
        with pytest.raises(SnapError) as caught:
            compiled(program).synced  # noqa: B018
        assert caught.value.code == program.code
        return
    made = compiled(program)
    found = order(made.synced)
    assert found.verdict == "ordered", (found.open[:2], found.stuck[:2])
    assert not races_on_cpu(program, made)
    assert not faults_on_ptx(program, made)


@pytest.mark.parametrize("program", KEPT, ids=lambda program: program.name)
def test_all_refuse_it_without_the_wait(program):
    made = without_waits(program)
    assert order(made.synced).verdict != "ordered"
    assert "exit" in races_on_cpu(program, made)
    assert faults_on_ptx(program, made)


def test_the_page_has_a_row_for_each_engine():
    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    section = text.split("### The end of a block")[1].split("\n## ")[0].split("\n### ")[0]
    rows = [row.split("|")[1].strip() for row in section.splitlines() if row.startswith("|")][2:]
    assert rows == list(ENGINES.values())
    assert {p.engine for p in PROGRAMS.values()} == set(ENGINES)
    assert re.search(rf"\b{re.escape(GONE)}\b", section)
