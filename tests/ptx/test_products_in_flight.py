"""Registers that a wgmma in flight uses: who touches them is told so, in every schedule; who waits, or touches others, is not."""

from __future__ import annotations

import pytest
from ptx.test_machine import kernel

from snap.ptx import PtxFault, run

TILES = """
.shared .align 1024 .b8 left[2048]; .shared .align 1024 .b8 right[256];
.reg .b32 %a<8>; .reg .f32 %x<4>; .reg .f32 %y<4>;
mov.u32 %r3, left; mov.u32 %r4, right; shr.u32 %r7, %r3, 4; cvt.u64.u32 %d12, %r7; or.b64 %d12, %d12, 0x1000080000;
shr.u32 %r8, %r4, 4; cvt.u64.u32 %d13, %r8; or.b64 %d13, %d13, 0x1000080000; setp.ne.u32 %p2, %r0, %r0; mov.u32 %r9, 0;
again: wgmma.fence.sync.aligned;
BODY
wgmma.wait_group.sync.aligned 0; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra again;
add.f32 %f1, %x0, %y0;
"""
COMMIT, WAIT = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned {};".format
A, B = "{%a0, %a1, %a2, %a3}", "%d13, %p2, 1, 1"


def product(d: str, a: str = "%d12", n: int = 8) -> str:
    accumulators = ", ".join(f"%{d}{i}" for i in range(4))
    flags = ", 0;" if a != "%d12" else ", 0, 0;"
    return f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{accumulators}}}, {a}, {B}{flags} "


X, Y, XA = product("x"), product("y"), product("x", A)
RIGHT = {
    "after the wait": X + COMMIT + WAIT(0) + "add.f32 %f2, %x1, %x1;",
    "others": X + COMMIT + Y + COMMIT + WAIT(1) + "add.f32 %x1, %x1, %x1;",
    "the same accumulators": X + X + COMMIT + X + COMMIT + WAIT(1) + X + COMMIT,
    "fragments are read": XA + COMMIT + "add.u32 %a5, %a0, %a1;",
    "fragments after the wait": XA + COMMIT + Y + COMMIT + WAIT(1) + "mov.b32 %a0, 0;",
    "a group of nothing": X + COMMIT + COMMIT + WAIT(1) + "mov.f32 %f1, %x0;",
    "some way round": "setp.gt.u32 %p3, %r9, 9; " + X + COMMIT + "@%p3 bra past;" + WAIT(0) + "mov.f32 %x3, %f1; past:",
}
WRONG = {
    "moved": (X + COMMIT + "mov.f32 %f1, %x2;", "an accumulator is read"),
    "moved to": (X + COMMIT + "mov.f32 %x2, %f1;", "an accumulator is written"),
    "uncommitted": (X + WAIT(0) + "mov.f32 %x2, %f1;" + COMMIT, "an accumulator is written"),
    "younger": (Y + COMMIT + X + COMMIT + WAIT(1) + "mov.f32 %f1, %x2;", "an accumulator is read"),
    "a fragment": (XA + COMMIT + "or.b32 %a3, %a4, %a5;", "a fragment of A is written"),
    "a guard does not help": (X + COMMIT + "setp.eq.u32 %p3, %r9, 2; @%p3 mov.f32 %f1, %x2;", "an accumulator is read"),
    "stored": (X + COMMIT + "st.shared.f32 [%r3], %x0;", "an accumulator is read"),
    "in another shape": (X + COMMIT + X.replace("%x0, %x1, %x2, %x3", "%x1, %x0, %x2, %x3"), "in another shape"),
    "as a fragment": (
        ".reg .b32 %c<2>; " + X.replace("f32.bf16.bf16 {%x0, %x1, %x2, %x3}", "f16.f16.f16 {%c0, %c1}")
        + product("y", "{%c0, %c1, %a2, %a3}").replace("f32.bf16.bf16", "f32.f16.f16"),
        "an accumulator is read as A",
    ),
}


def told(body: str, seed: int | None) -> PtxFault:
    with pytest.raises(PtxFault) as caught:
        run(kernel(TILES.replace("BODY", body), 0), "k", 1, 128, [], seed=seed)
    return caught.value


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", WRONG)
def test_what_touches_registers_in_flight_is_reported(name, seed):
    body, how = WRONG[name]
    fault = told(body, seed)
    assert fault.kind == "in flight" and how in str(fault) and fault.block == 0
    assert fault.diagnostic.secondary[0].text == "the wgmma"


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", RIGHT)
def test_what_waits_is_not(name, seed):
    run(kernel(TILES.replace("BODY", RIGHT[name]), 0), "k", 1, 128, [], seed=seed)


def test_the_next_round_of_a_loop_counts():
    """The accumulator is read before the wgmma, which the round before has left in flight."""
    body = "mov.f32 %f1, %x0; " + X + COMMIT + "bra.uni on; on: "
    text = TILES.replace("BODY", body).replace(WAIT(0) + " add", "add")
    with pytest.raises(PtxFault, match="an accumulator is read while its wgmma is in flight"):
        run(kernel(text, 0), "k", 1, 128, [])

