"""What ptxas accepts and compilers write seldom: vectors of registers, parameters in registers, prototypes, generic addresses of matrices, reserved memory.
Where ptxas is installed, it is asked whether it accepts each program."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from ptx.test_machine import HEAD, kernel

from snap.ptx import PtxError, PtxFault, load, parse, run, write

OUT = "ld.param.u64 %d0, [p0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d0, %d1;"
PUT = "st.global.u32 [%d1], {0};"
FUNCTIONS = """.func (.reg .b32 out) more(.reg .b32 x, .reg .b64 y) { .reg .pred %q; setp.gt.u64 %q, y, 4; add.u32 out, x, 1; @%q add.u32 out, out, 100; ret; }
.func (.reg .b32 n) down(.reg .b32 x) { .reg .pred %q; .reg .b32 %y; setp.eq.u32 %q, x, 0; mov.u32 n, 0; @%q ret; sub.u32 %y, x, 1; call (n), down, (%y); add.u32 n, n, x; ret; }
.func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %x; ld.param.b32 %x, [a]; add.u32 %x, %x, %x; st.param.b32 [r], %x; ret; }
.func (.param .b32 r) thrice(.param .b32 a) { .reg .b32 %x; ld.param.b32 %x, [a]; mul.lo.u32 %x, %x, 3; st.param.b32 [r], %x; ret; }
"""
INDIRECT = """setp.lt.u32 %p1, %r0, 8; mov.u64 %d4, twice; mov.u64 %d5, thrice; selp.b64 %d4, %d4, %d5, %p1;
{{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; {how} ld.param.b32 %r3, [r]; }}"""
T = np.arange(32, dtype=np.uint32)
PROGRAMS = {
    "a vector of registers": (
        ".reg .v4 .u32 v; .shared .align 16 .b8 s[512]; mov.u32 %r4, s; shl.b32 %r5, %r0, 4; add.u32 %r4, %r4, %r5; mov.u32 v.x, %r0; mov.u32 v.y, 7; mov.u32 v.z, %r5; mov.u32 v.w, 9;"
        "st.shared.v4.u32 [%r4], v; ld.shared.u32 %r3, [%r4+8]; add.u32 %r3, %r3, v.g;",
        16 * T + 7,
    ),
    "vectors that are counted": (".reg .v2 .b32 v<3>; mov.b32 v1.x, %r0; mov.b32 v1.y, 5; mov.b64 %d4, v1; shr.u64 %d4, %d4, 31; cvt.u32.u64 %r3, %d4; add.u32 %r3, %r3, v1.r;", T + 10),
    "a vector that is loaded": (
        ".reg .v2 .f32 v; .shared .align 16 .b8 s[512]; mov.u32 %r4, s; shl.b32 %r5, %r0, 3; add.u32 %r4, %r4, %r5; cvt.rn.f32.u32 %f1, %r0; st.shared.v2.f32 [%r4], {%f1, 0f40000000};"
        "ld.shared.v2.f32 v, [%r4]; mul.f32 v.x, v.x, v.y; cvt.rzi.u32.f32 %r3, v.x;",
        2 * T,
    ),
    "parameters in registers": ("cvt.u64.u32 %d4, %r0; call (%r3), more, (%r0, %d4);", T + 1 + np.where(T < 5, 0, 100).astype(np.uint32)),
    "registers of a function that calls itself": ("and.b32 %r4, %r0, 7; call (%r3), down, (%r4);", (T % 8) * (T % 8 + 1) // 2),
    "a prototype": (INDIRECT.format(how="proto: .callprototype (.param .b32 _) _ (.param .b32 _); call (r), %d4, (a), proto;"), np.where(T < 8, 2, 3).astype(np.uint32) * T),
    "a table of functions": (INDIRECT.format(how="table: .calltargets twice, thrice; call (r), %d4, (a), table;"), np.where(T < 8, 2, 3).astype(np.uint32) * T),
    "ldmatrix by a generic address": (
        ".shared .align 16 .b8 s[512]; mov.u32 %r4, s; shl.b32 %r5, %r0, 2; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r0; bar.sync 0; cvta.shared.u64 %d4, s; and.b32 %r5, %r0, 7; mul.wide.u32 %d5, %r5, 16; add.u64 %d4, %d4, %d5;"
        "setp.ge.u32 %p1, %r0, 8; @%p1 mov.u64 %d4, 0; ldmatrix.sync.aligned.m8n8.x1.b16 {%r3}, [%d4];",  # of one matrix eight lanes say where rows are
        T,
    ),
    "reserved shared memory": ("mov.u32 %r3, %reserved_smem_offset_0; mov.u32 %r4, %reserved_smem_offset_1; mov.u32 %r5, %reserved_smem_offset_begin; sub.u32 %r3, %r4, %r5;", 0 * T),
}


def text(name: str) -> str:
    return kernel(OUT + PROGRAMS[name][0] + PUT.format("%r3"), 1).replace(".visible", FUNCTIONS + ".visible", 1)


@pytest.mark.parametrize("mode", ["independent", "stack"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs(name, mode):
    out = np.full(32, 0xDEAD, np.uint32)
    assert parse(write(parse(text(name)))) == parse(text(name))
    run(text(name), "k", 1, 32, [out], mode=mode)
    np.testing.assert_array_equal(out, PROGRAMS[name][1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_ptxas_accepts_it(name, tmp_path):
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not installed")
    (tmp_path / "k.ptx").write_text(text(name))
    said = subprocess.run(["ptxas", "-arch=sm_90a", "k.ptx", "-o", "k.cubin"], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize(
    "body, code, message",
    [
        (".reg .v2 .u32 v; mov.u32 %r3, v.z;", "PTX003", "`v` has no element `.z`"),
        ("mov.u32 %r3, %r0.x;", "PTX003", "`%r0` has no element `.x`"),
        (".reg .v2 .u32 v; bra v;", "PTX002", "`bra` takes one label"),
        (".reg .v2 .u32 v; brx.idx %r0, v;", "PTX002", "a table of labels"),
    ],
)
def test_what_vectors_have_not(body, code, message):
    with pytest.raises(PtxError, match=message) as caught:
        load(parse(kernel(body, 1)))
    assert caught.value.diagnostic.code == code


def test_a_kernel_has_no_parameters_in_registers():
    with pytest.raises(PtxError, match="`p0` of a kernel is a `.param`"):
        load(parse(kernel("", 1).replace(".param .u64 p0", ".reg .u64 p0")))
    for kind in (".v2 .b32", ".pred", ".b16"):
        with pytest.raises(PtxError, match="`x` is not a register of one element of 32 bits or more"):
            load(parse(HEAD + f".func f(.reg {kind} x) {{ ret; }}"))


@pytest.mark.parametrize("body, name", [("vote.all.pred %p1, %p2;", "vote"), ("vote.ballot.b32 %r3, %p1;", "vote"), ("shfl.idx.b32 %r3, %r0, 0, 31;", "shfl")])
def test_votes_and_shuffles_without_sync_are_refused_by_name(body, name):
    """ptxas refuses them for sm_70 and later, too."""
    with pytest.raises(PtxFault, match=f"without `.sync` PTX has it before sm_70 alone, where lanes run in step; write `{name}.sync`"):
        run(kernel(body, 1), "k", 1, 32, [np.zeros(1)])


def test_matrices_lie_in_shared_memory():
    body = "ld.param.u64 %d0, [p0]; ldmatrix.sync.aligned.m8n8.x1.b16 {%r3}, [%d0];"
    with pytest.raises(PtxFault, match="of memory that is not shared") as caught:
        run(kernel(body, 1), "k", 1, 32, [np.zeros(512, np.uint32)])
    assert caught.value.kind == "out of bounds"


# ---- the lines of the source ---------------------------------------------------------------------------------------------------------------------

QUIET = ".func f(.param .b64 a) { .reg .b64 %x; .reg .b32 %y; ld.param.b64 %x, [a]; WHAT ret; }\n"
CALLS = "\n.loc 1 7 0\nld.param.u64 %d0, [p0]; setp.eq.u32 %p1, %r0, 0;\n@%p1 bra other;\n.loc 1 8 0\n{\n.param .b64 a;\nst.param.b64 [a], %d0;\ncall f, (a);\n}\nbra.uni out;\nother:\n.loc 1 9 0\n{\n.param .b64 a;\nst.param.b64 [a], %d0;\ncall f, (a);\n}\nout:"


def debug(what: str) -> str:
    return kernel(CALLS, 1).replace(".visible", '.file 1 "k.cu"\n' + QUIET.replace("WHAT", what) + ".visible", 1)


def test_a_function_without_lines_has_those_of_its_calls():
    """With --device-debug, atomics and shuffles are functions that no `.loc` speaks of."""
    with pytest.raises(PtxFault) as caught:
        run(debug("st.global.u32 [%x+4096], 1;"), "k", 1, 2, [np.zeros(4, np.uint32)])
    assert caught.value.line in (("k.cu", 8), ("k.cu", 9)) and f"from k.cu:{caught.value.line[1]}" in str(caught.value)
    with pytest.raises(PtxFault) as caught:
        run(debug("st.global.u32 [%x], 1;"), "k", 1, 2, [np.zeros(4, np.uint32)], checks=["races"])
    note = caught.value.diagnostic.note
    assert "k.cu:8" in note and "k.cu:9" in note and "the first is from" in note and ", the second from" in note


def test_a_race_with_one_line_says_whose_it_is():
    body = "ld.param.u64 %d0, [p0]; setp.eq.u32 %p1, %r0, 0; @%p1 st.global.u32 [%d0], 1;\n.loc 1 7 0\n@!%p1 st.global.u32 [%d0], 1;\n"
    text = kernel(body, 1).replace(".visible", '.file 1 "k.cu"\n.visible', 1)
    with pytest.raises(PtxFault) as caught:
        run(text, "k", 1, 2, [np.zeros(4, np.uint32)], checks=["races"])
    notes = [f.diagnostic.note for f in (caught.value, *caught.value.also)]
    ends = {note.rpartition("; ")[2] for note in notes}
    assert "the second from k.cu:7" in ends or "the first is from k.cu:7" in ends, notes


def test_a_nested_block_goes_on_at_its_line():
    body = "\n.loc 1 7 0\nld.param.u64 %d0, [p0];\n{\nst.global.u32 [%d0+4096], %r1;\n}\n"
    with pytest.raises(PtxFault) as caught:
        run(kernel(body, 1).replace(".visible", '.file 1 "k.cu"\n.visible', 1), "k", 1, 1, [np.zeros(4, np.int32)])
    assert caught.value.line == ("k.cu", 7)
