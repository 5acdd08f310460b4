"""Operands against their instruction: the table and its relations, what ptxas says of a sample, and how the errors read."""

from __future__ import annotations

import pytest
from ptx import typed
from ptx.typed import Line

from snap.ptx import PtxError, load, parse
from snap.ptx.text.operand_types import forms, ordered, takes, takes_number

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 o) { .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .f32 %f<4>; .reg .f64 %g<4>; .reg .pred %p<3>; .reg .b16 %h<3>; ld.param.u64 %d0,[o];
"""
REFUSED = {  # the line, and what is said of which operand
    "add.s32 %r1, 1.5, 1;": ("1.5", "a float is not of type .s32"),
    "mov.u64 %d1, 7; mov.u32 %r1, %d1;": ("%d1", "a register of .b64 is not of type .u32"),
    "add.s32 %r1, %d1, 1;": ("%d1", "a register of .b64 is not of type .s32"),
    "add.f32 %f1, %g1, %g1;": ("%g1", "a register of .f64 is not of type .f32"),
    "add.s32 %r1, %h1, 1;": ("%h1", "a register of .b16 is not of type .s32"),
    "st.global.u32 [%r1], %r1;": ("[%r1]", "a register of .b32 is not an address in .global"),
    "setp.eq.s32 %r1, 1, 1;": ("%r1", "a register of .b32 is not of type .pred"),
    "selp.b32 %r1, 1, 2, %r2;": ("%r2", "a register of .b32 is not of type .pred"),
    "ld.global.u32 %h1, [%d0];": ("%h1", "a register of .b16 is not of type .u32"),
    "ld.global.u64 %r1, [%d0];": ("%r1", "a register of .b32 is not of type .u64"),
    "add.s32 %r1, %r2;": ("add.s32 %r1, %r2;", "it takes 3 operands, and there are 2"),
    "shl.b32 %r1, %r2, %d0;": ("%d0", "a register of .b64 is not of type .u32"),
    "bar.sync 0, 33;": ("33", "a barrier of 33 threads: barriers are of whole warps"),
    "bar.sync 16;": ("16", "barrier 16 of a block, which has 16 (0 to 15)"),
    "mul.wide.s32 %r1, %r2, %r3;": ("%r1", "a register of .b32 is not of type .s64"),
    "mov.pred %p1, %r1;": ("%r1", "a register of .b32 is not of type .pred"),
    "atom.global.add.u32 %r1, [%d0], 1.0;": ("1.0", "a float is not of type .u32"),
    "ld.shared.u32 %r1, [o];": ("[o]", "`o` is in .param memory, and this is an access to .shared"),
    "ld.global.v2.u32 {%r1, %r2, %r3}, [%d0];": ("{%r1, %r2, %r3}", "2 registers are expected, and these are 3"),
    "ld.shared.v4.f64 {%g0, %g1, %g2, %g3}, [%d0];": ("{%g0, %g1, %g2, %g3}", "4 times .f64 are more than one access takes"),
    "mov.b64 %d1, {%r1, %h1};": ("{%r1, %h1}", "these are not 2 parts of .b64"),
    "cvt.rn.f32.s32 %h1, %r1;": ("%h1", "a register of .b16 is not of type .f32"),
    "bfe.u32 %r1, %r2, 300, 1;": ("300", "300 is not within 0 to 255"),
    "vadd2.u32.u32.u32 %r1, 1, %r2, %r3;": ("1", "a register is expected"),
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_refused_and_where(line):
    with pytest.raises(PtxError) as caught:
        load(parse(HEAD + line + "\nret; }\n"))
    d = caught.value.diagnostic
    where, said = REFUSED[line]
    text = line.split("\n")[0]
    assert d.code == "PTX005" and d.label == said and d.span.line == 5
    assert text[d.span.column : d.span.end_column] == where


def test_words_in_any_order():
    assert ordered(("ld", "u32", "ca", "global")) == ("ld", "global", "ca", "u32")
    assert ordered(("setp", "s32", "and", "lt")) == ("setp", "lt", "and", "s32")
    assert forms(("mul", "u32", "wide")) == () and forms(("mul", "wide", "u32")) and not forms(("ld", "global", "global", "u32"))
    load(parse(HEAD + "ld.u32.ca.global %r1, [%d0]; setp.s32.lt %p1, %r1, 7; ret; }\n"), strict=True)
    with pytest.raises(PtxError, match="there is no instruction add.wide.u32"):
        load(parse(HEAD + "add.wide.u32 %r1, %r1, 7; ret; }\n"), strict=True)


def test_the_three_relations():
    assert [r for r in typed.TYPES if takes("b32", r)] == ["b32", "u32", "s32", "f32"]
    assert [r for r in typed.TYPES if takes("u32", r)] == ["b32", "u32", "s32"]
    assert [r for r in typed.TYPES if takes("f32", r)] == ["b32", "f32"]
    assert [r for r in typed.TYPES if takes("pred", r)] == ["pred"]
    assert [r for r in typed.TYPES if takes("u16", r, relaxed=True)] == ["b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"]
    assert [r for r in typed.TYPES if takes("f32", r, relaxed=True)] == ["b32", "f32", "b64"]
    assert [t for t in typed.TYPES if takes_number(t, "int")] == ["pred", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"]
    assert [t for t in typed.TYPES if takes_number(t, "f32")] == ["b32", "f32", "f64"]


def test_instructions_of_kernels_are_all_taken():
    assert len(typed.seeds()) > 2000
    assert typed.said(typed.module_of(typed.seeds(), "sm_100a")) == ""


def test_a_sample_against_ptxas():
    if typed.ptxas() is None:
        pytest.skip("there is no ptxas: put CUDA's bin folder on PATH, or install nvidia-cuda-nvcc")
    lines = [typed.mutant(n) for n in range(5000, 5040)]
    different = typed.compared(lines)
    assert [(str(line), theirs, ours) for line, theirs, ours in different if not typed.why(line, theirs, ours)] == []
    assert typed.asked(Line(("add", "s32"), ("%b32_0", "%b32_1", "1")).module()) == ""
    assert "mismatch" in typed.asked(Line(("add", "s32"), ("%b32_0", "%b64_1", "1")).module())
