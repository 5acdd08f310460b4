"""Shared memory is that of one kernel, and an access through the address of a variable lies in the variable."""

from __future__ import annotations

import numpy as np
import pytest

from snap.ptx import PtxFault, load, parse, run
from snap.ptx.program.layout import of_kernel

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def shared_of(text: str, entry: str) -> tuple[int, list[str]]:
    program = load(parse(HEAD + text))
    own = of_kernel(program, program.functions[entry])
    return own.shared_bytes, [v.name for v in own.shared]


def test_each_kernel_has_its_own():
    """As ptxas has it: those of its body, and those of the module that it names; 768, 612 and 0 bytes."""
    text = """.shared .align 4 .b8 m1[1000]; .shared .align 4 .b8 m2[100];
    .visible .entry a() { .shared .align 4 .b8 sa[256]; .shared .align 4 .b8 sx[512]; st.shared.u32 [sa], 7; ret; }
    .visible .entry b() { .shared .align 4 .b8 sb[512]; st.shared.u32 [sb], 7; st.shared.u32 [m2], 7; ret; }
    .visible .entry c() { ret; }"""
    assert shared_of(text, "a") == (768, ["sa", "sx"]) and shared_of(text, "b") == (612, ["m2", "sb"]) and shared_of(text, "c") == (0, [])


def test_of_functions_that_it_may_call():
    text = """.shared .align 4 .b8 far[64]; .shared .align 4 .b8 near[32];
    .func inner() { st.shared.u32 [far], 1; ret; }
    .func outer() { .shared .align 4 .b8 own[16]; st.shared.u32 [own], 1; call inner, (); ret; }
    .visible .entry a() { call outer, (); ret; }
    .visible .entry b() { st.shared.u32 [near], 2; ret; }
    .visible .entry c() { .reg .b64 %d; mov.u64 %d, inner; ret; }"""
    assert shared_of(text, "a") == (80, ["far", "own"]) and shared_of(text, "b") == (32, ["near"]) and shared_of(text, "c") == (64, ["far"])


def test_a_function_of_two_kernels_finds_its_variable_in_both():
    text = HEAD + """.shared .align 8 .b8 s[8];
    .func (.param .b32 r) f(.param .b32 x) { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; st.shared.u32 [s+4], %r1; ld.shared.u32 %r2, [s+4]; st.param.b32 [r], %r2; ret; }
    """ + "".join(f""".visible .entry {name}(.param .u64 o) {{ {room} .reg .b32 %r<5>; .reg .b64 %d<2>; {store}
    {{ .param .b32 p; .param .b32 q; st.param.b32 [p], {k}; call (q), f, (p); ld.param.b32 %r3, [q]; }}
    {load} ld.param.u64 %d0, [o]; st.global.v2.u32 [%d0], {{%r3, %r4}}; ret; }}
    """ for name, k, room, store, load in (("a", 5, ".shared .align 16 .b8 mine[400];", "st.shared.u32 [mine+396], 9;", "ld.shared.u32 %r4, [mine+396];"),
                                           ("b", 6, "", "", "ld.shared.u32 %r4, [s+4];")))
    for name, expected in (("a", [5, 9]), ("b", [6, 6])):
        out = np.zeros(2, np.uint32)
        run(text, name, 1, 1, [out])
        assert out.tolist() == expected


def test_what_the_launch_gives_begins_where_the_kernels_own_ends():
    text = HEAD + """.extern .shared .align 16 .b8 given[];
    .visible .entry a(.param .u64 o) { .shared .align 4 .b8 big[4000]; .reg .b64 %d; ld.param.u64 %d, [o]; st.shared.u32 [big], 1; ret; }
    .visible .entry b(.param .u64 o) { .shared .align 4 .b8 small[4]; .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [o]; mov.u32 %r, given;
      st.global.u32 [%d], %r; st.shared.u32 [given+60], 1; ret; }"""
    out = np.zeros(1, np.uint32)
    run(text, "b", 1, 1, [out], dynamic_shared=64)
    assert out[0] == 16
    with pytest.raises(PtxFault, match="out of bounds"):
        run(text.replace("given+60", "given+64"), "b", 1, 1, [out], dynamic_shared=64)


def test_six_kernels_with_much_of_it():
    text = HEAD + "".join(f".visible .entry k{k}() {{ .shared .align 4 .b8 s{k}[48000]; st.shared.u32 [s{k}], 7; ret; }}\n" for k in range(6))
    for k in range(6):
        run(text, f"k{k}", 1, 1, [])


BODY = """.global .align 4 .b8 ga[64]; .global .align 4 .b8 gb[64];
.visible .entry k(.param .u64 o, .param .u32 n)
{{
.shared .align 16 .b8 sa[64]; .shared .align 16 .b8 sb[64]; .local .align 16 .b8 la[64]; .local .align 16 .b8 lb[64];
.reg .b32 %r<12>; .reg .b64 %d<8>; .reg .pred %p<4>;
ld.param.u32 %r0, [n]; cvt.s64.s32 %d0, %r0; setp.eq.u32 %p1, %r0, 77;
{}
st.shared.u32 [sb], 1; st.local.u32 [lb], 1; st.global.u32 [gb], 1; ret;
}}"""


def fault_of(text: str, n: int) -> str:
    try:
        run(HEAD + BODY.format(text), "k", 1, 1, [np.zeros(1, np.uint32), n])
    except PtxFault as fault:
        return f"{fault.kind}: {fault.diagnostic.message}"
    return ""


WAYS = {  # 4 bytes at byte n of a variable
    "added": ("mov.u32 %r1, sa; add.s32 %r2, %r1, %r0; st.shared.u32 [%r2], 1;", "sa"),
    "with an offset": ("mov.u32 %r1, sa; add.s32 %r2, %r0, %r1; st.shared.u32 [%r2+0], 1;", "sa"),
    "subtracted": ("mov.u32 %r1, sa; neg.s32 %r3, %r0; sub.s32 %r2, %r1, %r3; ld.shared.u32 %r4, [%r2];", "sa"),
    "multiplied": ("mov.u32 %r1, sa; mad.lo.s32 %r2, %r0, 1, %r1; red.shared.add.u32 [%r2], 1;", "sa"),
    "generic": ("mov.u64 %d1, sa; cvta.shared.u64 %d2, %d1; add.s64 %d3, %d2, %d0; st.u32 [%d3], 1;", "sa"),
    "local": ("mov.u64 %d1, la; add.s64 %d3, %d1, %d0; st.local.u32 [%d3], 1;", "la"),
    "local, generic": ("mov.u64 %d1, la; cvta.local.u64 %d2, %d1; add.s64 %d3, %d2, %d0; st.u32 [%d3], 1;", "la"),
    "global": ("mov.u64 %d1, ga; add.s64 %d3, %d1, %d0; atom.global.add.u32 %r5, [%d3], 1;", "ga"),
    "in a loop": ("mov.u32 %r1, sa; mov.u32 %r2, 0; L: mov.u32 %r3, %r1; add.s32 %r1, %r3, 4; add.s32 %r2, %r2, 4; setp.le.s32 %p2, %r2, %r0;"
                  " @%p2 bra L; st.shared.u32 [%r1+-4], 1;", "sa"),
    "one of two": ("mov.u32 %r1, sa; add.s32 %r2, %r1, 4; selp.b32 %r3, %r1, %r2, %p1; add.s32 %r3, %r3, %r0; st.shared.u32 [%r3+-4], 1;", "sa"),
}


@pytest.mark.parametrize("name", WAYS)
def test_an_access_stays_in_its_variable(name):
    text, variable = WAYS[name]
    assert fault_of(text, 60) == ""
    assert fault_of(text, 64).startswith("out of bounds: 4 bytes at byte 64 of `" + variable) and fault_of(text, 64).endswith("which has 64")


OPEN = {  # an address that derives from two variables, or nobody knows from which, is checked against the whole space
    "of two": "mov.u32 %r1, sa; mov.u32 %r2, sb; selp.b32 %r3, %r1, %r2, %p1; add.s32 %r3, %r3, %r0; st.shared.u32 [%r3+-64], 1;",
    "a difference": "mov.u32 %r1, sa; mov.u32 %r2, sb; sub.s32 %r3, %r2, %r1; add.s32 %r4, %r1, %r3; st.shared.u32 [%r4], 1;",
    "through memory": "mov.u32 %r1, sa; st.local.u32 [la], %r1; ld.local.u32 %r2, [la]; add.s32 %r2, %r2, %r0; st.shared.u32 [%r2], 1;",
    "two assignments": "mov.u32 %r1, sa; @%p1 mov.u32 %r1, sb; add.s32 %r2, %r1, %r0; st.shared.u32 [%r2], 1;",
    "swizzled": "mov.u32 %r1, sa; add.s32 %r2, %r1, %r0; shr.u32 %r3, %r2, 3; xor.b32 %r4, %r2, %r3; and.b32 %r4, %r4, 124; st.shared.u32 [%r4], 1;",
}


@pytest.mark.parametrize("name", OPEN)
def test_what_derives_from_two_is_not_looked_at(name):
    assert fault_of(OPEN[name], 64) == ""


def test_an_array_is_no_struct():
    text = HEAD + ".visible .entry k(.param .u64 o, .param .align 4 .b8 p[8]) { .reg .b32 %r<2>; .reg .b64 %d; ld.param.u64 %d, [o]; ld.param.u32 %r1, [p+4]; st.global.u32 [%d], %r1; ret; }"
    out = np.zeros(1, np.uint32)
    with pytest.raises(TypeError, match="cannot hold one: give its bytes"):
        run(text, "k", 1, 1, [out, np.zeros(2, np.uint32)])
    run(text, "k", 1, 1, [out, np.array([3, 4], np.uint32).tobytes()])
    assert out[0] == 4
