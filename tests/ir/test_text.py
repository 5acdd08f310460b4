"""The IR as text (snap/_compiler/ir/printer.py): four programs against golden files, all of the corpus for shape."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from corpus import OK, TESTS, Program, compare, kernels_of

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.printer import _EXPRESSIONS, line, text
from snap._compiler.ir.types import I32
from snap._compiler.ir.walk import statements

GOLDEN = Path(__file__).resolve().parent / "golden"
SHOWN = ("tree_reduce", "called_twice", "async_copies", "hgemm")


@pytest.mark.parametrize("name", SHOWN)
def test_golden(name, request):
    """Each kernel typed, and synchronized."""
    kernels = kernels_of(Program(TESTS / "ok" / f"{name}.py").namespace()).values()
    lines = [f"# {stage}\n\n{kernel.ir(stage)}\n" for kernel in kernels for stage in ("typed", "synchronized")]
    compare(GOLDEN / f"{name}.ir", "\n".join(lines), request.config.getoption("--update-golden"))


def test_every_golden_file_is_used():
    assert {path.stem for path in GOLDEN.glob("*")} == set(SHOWN)


@pytest.mark.parametrize("program", OK[::4], ids=lambda program: program.path.stem)
def test_the_text_is_the_same_each_time_and_holds_no_object(program):
    """Numbers that the compiler gives differ from one execution to the next; the text does not."""
    one, other = ([k.ir(stage) for k in kernels_of(program.execute()).values() for stage in ("typed", "synchronized")] for _ in range(2))
    assert one == other
    assert not re.search(r"\w+\(uid=|Span\(|<snap| object at ", "\n".join(one))


def test_every_node_has_a_text():
    assert set(_EXPRESSIONS) == set(get_args(ir.Expr))
    seen = set()
    for program in OK:
        for kernel in kernels_of(program.namespace()).values():
            compiled = kernel._the_one({})
            for s in (*everything(compiled.typed), *everything(compiled.synced)):
                seen.add(type(s))
                assert "\n" not in line(s)
    place, span = compiled.typed.place, compiled.typed.span
    some = synced.MBarrierExpect(synced.MBarrier(1, "full", 2, 1, span=span), ir.Const(1, I32, span=span), 16, place, span=span)  # where bytes are not known before
    assert line(some) == f"expect full[1], 16 bytes at {place}"
    assert seen | {type(some)} == {*get_args(ir.Typed), *get_args(synced.OnlySynced)}


def everything(function):
    for s in statements(function.body):
        yield s
        if isinstance(s, ir.Call):
            yield from everything(s.function)


def test_a_second_variable_of_one_name_is_told_apart():
    (kernel,) = kernels_of(Program(TESTS / "ok" / "subgroups.py").namespace()).values()
    assert "partition cell @ thread[1] of row" in kernel.ir("typed") and "partition cell.2 @ thread[1] of piece" in kernel.ir("typed")


def test_passes_begin_with_the_tree_and_end_with_cuda():
    kernel = kernels_of(Program(TESTS / "ok" / "boxes.py").namespace())["relay"]
    found = kernel.passes()
    assert [name for name, _, _ in found] == ["parse", "check", "lower pipelines", "specialize warps", "reduce divisions", "print"]
    assert found[0][2].startswith("def relay(") and found[-1][2] == kernel.cuda()
    assert found[1][2] == kernel.ir("typed") and found[-3][2] == kernel.ir() == text(kernel._the_one({}).synced)
    with pytest.raises(ValueError, match="'typed' or 'synchronized'"):
        kernel.ir("pipelined")
