"""Checks by name: registers and local memory that nobody wrote, barriers that threads leave out, shuffles from lanes that are not there."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.test_compilers import compiled_text

from snap.ptx import PtxFault, run

HEAD = """.version 8.0
.target sm_90
.address_size 64
{more}.visible .entry k(.param .u64 o, .param .u32 n)
{{
.local .align 16 .b8 l[32];
.reg .b32 %r<16>; .reg .b64 %d<6>; .reg .pred %p<6>; .reg .b16 %h<4>;
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [o]; ld.param.u32 %r1, [n]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;
setp.lt.u32 %p1, %r0, %r1;
{body}
st.global.u32 [%d0], %r2;
ret;
}}
"""


def found(body: str, check: str, n: int = 8, block: int = 32, mode: str = "independent", more: str = "") -> str:
    """Kind and message, or nothing."""
    text = HEAD.format(body=body, more=more)
    run(text, "k", 1, block, [np.zeros(block, np.uint32), n], mode=mode)  # without the check nothing is said
    try:
        run(text, "k", 1, block, [np.zeros(block, np.uint32), n], checks=[check], mode=mode)
    except PtxFault as fault:
        return f"{fault.kind}: {fault.diagnostic.message}"
    return ""


UNWRITTEN = {
    "stored": "",
    "computed of": "add.u32 %r2, %r3, 1;",
    "computed of twice": "mov.u32 %r4, %r3; mul.lo.u32 %r2, %r4, %r0;",
    "an address": "mov.u32 %r2, 0; mov.u64 %d2, l; add.u64 %d2, %d2, %d3; ld.local.u32 %r2, [%d2];",
    "a guard": "mov.u32 %r2, 0; @%p2 mov.u32 %r2, 1;",
    "on one path": "@%p1 mov.u32 %r2, 5;",
    "chosen": "mov.u32 %r3, 1; selp.u32 %r2, %r3, %r4, %p1;",
    "chosen by": "mov.u32 %r3, 1; selp.u32 %r2, %r3, 2, %p3;",
    "half a word": "mov.u16 %h0, 1; mov.b32 %r2, {%h0, %h1};",
    "the carry": "addc.u32 %r2, 0, 0;",
    "a carry of": "add.cc.u32 %r3, %r4, 1; addc.u32 %r2, 0, 0;",
    "of an atomic": "mov.u32 %r2, 0; atom.global.add.u32 %r2, [%d0], %r5;",
    "of a barrier": "mov.u32 %r2, 0; bar.sync %r6;",
}
WRITTEN = {
    "on both paths": "@%p1 mov.u32 %r2, 5; @!%p1 mov.u32 %r2, 6;",
    "not chosen": "mov.u32 %r3, 1; setp.eq.u32 %p2, %r0, %r0; selp.u32 %r2, %r3, %r4, %p2;",
    "copied, and not used": "mov.u32 %r2, 1; mov.u32 %r3, %r4; add.u32 %r5, %r3, 1;",
    "of another lane": "setp.eq.u32 %p2, %r0, 0; @%p2 mov.u32 %r3, 7; shfl.sync.idx.b32 %r2, %r3, 0, 31, -1;",
    "a chain": "add.cc.u32 %r3, %r0, 1; addc.cc.u32 %r4, 0, 0; addc.u32 %r2, %r3, 0;",
    "a vector": "ld.global.u32 %r3, [%d0]; mov.b64 %d4, {%r3, %r0}; mov.b64 {%r5, %r2}, %d4;",
}


@pytest.mark.parametrize("mode", ("independent", "stack"))
@pytest.mark.parametrize("name", UNWRITTEN)
def test_registers_that_nobody_wrote(name, mode):
    assert found(UNWRITTEN[name], "registers", mode=mode).startswith("uninitialized: it"), name


@pytest.mark.parametrize("name", WRITTEN)
def test_registers_that_somebody_wrote(name):
    assert found(WRITTEN[name], "registers") == ""


def test_where_it_came_from_is_shown():
    with pytest.raises(PtxFault) as caught:
        run(HEAD.format(body="add.u32 %r3, %r4, 1;\nadd.u32 %r2, %r3, 1;", more=""), "k", 1, 32, [np.zeros(32, np.uint32), 8], checks=["registers"])
    d = caught.value.diagnostic
    assert d.message == "it uses a value made of a register that was never written"
    assert [label.text for label in d.secondary] == ["which is read here"] and d.secondary[0].span.line == 10 and d.span.line == 12


@pytest.mark.parametrize("mode", ("independent", "stack"))
def test_local_memory(mode):
    assert found("ld.local.u32 %r2, [l+4];", "local", mode=mode) == "uninitialized: 4 bytes at byte 4 of the thread's local memory are read before it wrote them"
    assert found("st.local.u32 [l], 1; ld.local.v2.u32 {%r2, %r3}, [l];", "local", mode=mode).startswith("uninitialized: 4 bytes at byte 4")
    assert found("mov.u32 %r2, 0; st.local.u32 [l], 1; ld.local.u64 %d2, [l];", "local", mode=mode).startswith("uninitialized: 8 bytes at byte 0")
    assert found("@%p1 st.local.u32 [l], 1; ld.local.u32 %r2, [l];", "local", mode=mode).startswith("uninitialized: 4 bytes at byte 0")
    assert found("st.local.u32 [l+4], 1; ld.local.u32 %r2, [l+4];", "local", mode=mode) == ""
    assert found("mov.u64 %d2, l; cvta.local.u64 %d2, %d2; st.u64 [%d2], %d1; ld.u16 %h1, [%d2+6]; cvt.u32.u16 %r2, %h1;", "local", mode=mode) == ""


def test_arguments_of_calls_are_local_memory_that_is_written():
    more = ".func (.param .b32 r) f(.param .b32 x) { .reg .b32 %r; ld.param.b32 %r, [x]; st.param.b32 [r], %r; ret; }\n"
    body = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r0; call (y), f, (x); ld.param.b32 %r2, [y]; }"
    assert found(body, "local", more=more) == found(body, "registers", more=more) == ""


BARRIERS = {
    "a guard": ("mov.u32 %r2, 0; @%p1 bar.sync 0;", "bar.sync is executed by whole warps, and threads 8-31 of the warp pass it by"),
    "jumped over": ("mov.u32 %r2, 0; @!%p1 bra E; bar.sync 0; E:", "barrier 0 is for all threads of the block, and threads 8-31 have left without it"),
    "left before": ("mov.u32 %r2, 0; @!%p1 exit; bar.sync 3;", "barrier 3 is for all threads of the block, and threads 8-31 have left without it"),
    "a reduction": ("mov.u32 %r2, 0; @!%p1 exit; bar.red.popc.u32 %r2, 0, %p1;", "barrier 0 is for all threads of the block, and threads 8-31 have left without it"),
}


@pytest.mark.parametrize("name", BARRIERS)
def test_barriers_that_threads_leave_out(name):
    body, message = BARRIERS[name]
    assert found(body, "barriers") == f"barrier mismatch: {message}"


def test_barriers_of_warps_that_others_leave_out():
    body = "mov.u32 %r2, 0; @!%p1 exit; bar.sync 0;"
    for mode in ("independent", "stack"):
        assert "and threads 32-63 have left without it" in found(body, "barriers", 32, 64, mode)
        assert found(body.replace("sync 0", "sync 0, 32"), "barriers", 32, 64, mode) == found(body, "barriers", 64, 64, mode) == ""
        assert found("mov.u32 %r2, 0; bar.sync 0; @!%p1 exit; st.global.u32 [%d0], 1;", "barriers", 8, 64, mode) == ""


SHUFFLES = {
    "a lane that left": ("mov.u32 %r2, 0; @!%p1 exit; shfl.sync.down.b32 %r2, %r0, 1, 31, -1;", "lane 8 of the warp, which has left"),
    "a lane that is not named": ("mov.u32 %r2, 0; @!%p1 bra E; shfl.sync.bfly.b32 %r2, %r0, 8, 31, 0xff; E:", "lane 8 of the warp, which the mask 0x000000ff does not name"),
    "one of the other half": ("selp.b32 %r3, 0xff, 0xffffff00, %p1; shfl.sync.idx.b32 %r2, %r0, 0, 31, %r3;", "lane 0 of the warp, which the mask 0xffffff00 does not name"),
}


@pytest.mark.parametrize("name", SHUFFLES)
def test_shuffles_from_lanes_that_are_not_there(name):
    body, message = SHUFFLES[name]
    assert found(body, "shuffles") == f"inactive lane: a value is taken from {message}"


def test_shuffles_from_lanes_that_are_there():
    assert found("shfl.sync.down.b32 %r2|%p2, %r0, 16, 31, -1;", "shuffles") == ""
    assert found("mov.u32 %r2, 0; @!%p1 bra E; shfl.sync.down.b32 %r2, %r0, 4, 6151, 0xff; E:", "shuffles") == ""  # segments of 8
    assert "lane 20 of the warp, which is not there: the block has fewer threads" in found("shfl.sync.down.b32 %r2, %r0, 1, 31, -1;", "shuffles", block=20)


def test_what_cuda_compiles_to():
    """`if (t < n) { ... __syncthreads(); }` becomes a branch over the barrier, to the end."""
    pytest.importorskip("cuda.bindings.nvrtc")
    text = compiled_text("""extern "C" __global__ void k(const int *in, int *out, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t < n) { s[t] = in[t]; __syncthreads(); out[t] = t ? s[t - 1] : 0; }
}
extern "C" __global__ void m(const int *in, int *out, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    out[i] = __shfl_down_sync(0xffffffffu, in[i], 1);
}""")
    given = lambda n: [np.arange(64, dtype=np.int32), np.zeros(64, np.int32), n]  # noqa: E731
    for kernel, check, modes in (("k", "barriers", ("independent", "stack")), ("m", "shuffles", ("independent",))):
        for mode in modes:
            run(text, kernel, 1, 64, given(64), checks=[check], mode=mode)
            run(text, kernel, 1, 64, given(20), mode=mode)
            with pytest.raises(PtxFault, match="left"):
                run(text, kernel, 1, 64, given(20), checks=[check], mode=mode)
