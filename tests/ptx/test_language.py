"""The kernels of tests/ptx/cuda/language.cu, after NVRTC, on the machine: functions and calls in every form, against Python."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from ptx.test_compilers import compiled

from snap import ptx
from snap.ptx import PtxFault, load, parse, run

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
SEEDS = (None, 3)


@pytest.fixture(scope="module", params=["compute_75", "compute_100"])
def program(request):
    return load(parse(compiled("language", request.param)), strict=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_structures_are_given_and_come_back(program, seed):
    x, out = np.arange(40, dtype=np.int32) * 7, np.zeros(40, np.int32)
    run(program, "calls", 2, 32, [out, x, 40], seed=seed)
    assert out.tolist() == [2 * v + 3 * v + int(3.0 * i / 2) + i for i, v in enumerate(x.tolist())]


@pytest.mark.parametrize("seed", SEEDS)
def test_functions_that_call_themselves_and_each_other(program, seed):
    out = np.zeros(40, np.int32)
    run(program, "recursion", 1, 40, [out], seed=seed)
    factorial = [1, 1, 2, 6, 24, 120, 720, 5040]
    assert out.tolist() == [factorial[t % 8] + (t % 2 == 0) for t in range(40)]


@pytest.mark.parametrize("seed", SEEDS)
def test_pointers_of_functions(program, seed):
    x, out = np.random.default_rng(1).integers(0, 90, 64).astype(np.int32), np.zeros(64, np.int32)
    run(program, "pointers", 1, 64, [out, x], seed=seed)
    functions = [lambda t: 2 * t, lambda t: t + 1, lambda t: 5 * t]
    assert out.tolist() == [functions[v % 3](t) for t, v in enumerate(x.tolist())]


def test_virtual_functions(program):
    out = np.zeros(32, np.float32)
    run(program, "shapes", 1, 32, [out])
    assert out.tolist() == [(1.0 + t) ** 2 if t & 1 else 3.0 * t * t for t in range(32)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_switch(program, seed):
    x, out = np.random.default_rng(2).integers(0, 1000, 96).astype(np.int32), np.zeros(96, np.int32)
    run(program, "branches", 1, 96, [out, x], seed=seed)
    ways = [lambda v: 3 * v, lambda v: v - 7, lambda v: v ^ 99, lambda v: 2 * v, lambda v: v // 3, lambda v: v % 7, lambda v: -v, lambda v: ~v]
    ways += [lambda v: v << 3, lambda v: v >> 2, lambda v: v * v, lambda v: v | 64]
    assert out.tolist() == [ways[v & 15](v) if v & 15 < 12 else 1000 for v in x.tolist()]


def test_variables_of_the_module(program):
    out, row = np.zeros(16, np.int32), np.zeros(16, np.float32)
    run(program, "statics", 1, 16, [out, row])
    table, name = [3, 1, 4, 1, 5, 9, 2, 6], b'a "name"\n'
    assert out.tolist() == [table[t & 7] + 7 + name[t & 3] for t in range(16)]
    assert row.tolist() == [1.5, -2.0, 0.0, 3.25] * 4


def test_local_arrays(program):
    out = np.zeros(32, np.int32)
    run(program, "locals", 1, 32, [out, 33])
    for t in range(32):
        a = [k * t for k in range(20)]
        for k in range(33):
            a[(k * 7) % 20] += a[(k + 3) % 20]
        assert out[t] == a[13]


@pytest.mark.parametrize("seed", SEEDS)
def test_shared_memory_that_is_given_at_launch(program, seed):
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    run(program, "shared", 1, 64, [out, x], dynamic_shared=256, seed=seed)
    assert out.tolist() == [63 - t + 2.0 * ((t + 1) % 64) for t in range(64)]


def test_parameters_of_every_size(program):
    out = np.zeros(18, np.float64)
    big, pair = struct.pack("<9i", *range(10, 19)), struct.pack("<i4xd", 100, 0.25)
    half = np.float16(1.5).tobytes()
    run(program, "by_value", 1, 18, [big, pair, (-5 & 255).to_bytes(1, "little"), struct.pack("<h", 1000), half, out])
    assert out.tolist() == [10 + t % 9 + 100 + 0.25 - 5 + 1000 + 1.5 for t in range(18)]


def test_the_printer_of_the_machine_and_its_limits(program):
    x = np.zeros(200, np.float32)
    run(program, "bounded", 1, 128, [x])
    assert x.tolist() == [1.0] * 128 + [0.0] * 72
    with pytest.raises(ValueError, match="at most 128 threads"):
        run(program, "bounded", 1, 160, [x])


ENDLESS = (
    HEAD
    + """
.func (.param .b32 out) deeper(.param .b32 x)
{ .reg .b32 %r<4>; ld.param.u32 %r1, [x]; add.s32 %r1, %r1, 1;
{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call (b), deeper, (a); ld.param.b32 %r2, [b]; } st.param.b32 [out], %r2; ret; }
.visible .entry k(.param .u64 p0) { .reg .b32 %r<4>;
{ .param .b32 a; st.param.b32 [a], 1; .param .b32 b; call (b), deeper, (a); ld.param.b32 %r2, [b]; } ret; }
"""
)


def test_a_stack_that_is_used_up_is_a_fault():
    with pytest.raises(PtxFault, match="deeper calls itself until the thread's stack is used up") as caught:
        run(ENDLESS, "k", 1, 32, [np.zeros(1)])
    assert caught.value.kind == "out of bounds" and caught.value.span.line == 7


OUTER = (
    HEAD
    + """
.func down(.param .b64 where, .param .b32 n)
{ .reg .b32 %r<6>; .reg .b64 %d<6>; .reg .pred %p<2>; .local .align 4 .b8 mine[4];
ld.param.u64 %d1, [where]; ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; mov.u64 %d2, mine; cvta.local.u64 %d2, %d2; st.u32 [%d2], %r1;
@%p1 bra done;
sub.s32 %r2, %r1, 1; { .param .b64 a; st.param.b64 [a], %d2; .param .b32 b; st.param.b32 [b], %r2; call down, (a, b); }
done: ld.u32 %r3, [%d2]; ld.u32 %r4, [%d1]; add.u32 %r4, %r4, %r3; st.u32 [%d1], %r4; ret; }
.visible .entry k(.param .u64 p0) { .reg .b64 %d<4>; .reg .b32 %r<3>; mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p0]; mad.wide.u32 %d1, %r1, 4, %d1; cvta.global.u64 %d1, %d1;
{ .param .b64 a; st.param.b64 [a], %d1; .param .b32 b; st.param.b32 [b], %r1; call down, (a, b); } ret; }
"""
)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_time_a_function_is_entered_it_has_variables_of_its_own(seed):
    """Each adds its own variable to its caller's, through a pointer."""
    out = np.zeros(32, np.uint32)
    ptx.run(OUTER, "k", 1, 32, [out], seed=seed)
    assert out.tolist() == [n * (n + 1) // 2 for n in range(32)]
