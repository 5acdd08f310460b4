"""`.aligned`: whole warps execute the instruction.  A warp that has parted is a fault with its place, in both modes; threads that have left are only
excused at barriers ("reached by all non-exited threads", NVIDIA's Volta Compatibility Guide)."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.stacked import kernel

from snap.ptx import PtxFault, run

MMA = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f0,%f1,%f2,%f3};"
EACH = [
    MMA,
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];",
    "wgmma.fence.sync.aligned;",
    "setmaxnreg.inc.sync.aligned.u32 64;",
]
HALF = "setp.lt.u32 %p1, %r0, 16; "


def launched(body: str, mode: str) -> None:
    text = kernel(body).replace(".reg .pred", ".reg .f32 %f<4>; .shared .b32 s[64]; .reg .pred")
    run(text, "k", 1, 32, [np.zeros(1, np.uint32)], mode=mode)


def refused(body: str, mode: str, thread: int = 0) -> str:
    with pytest.raises(PtxFault) as caught:
        launched(body, mode)
    fault = caught.value
    assert (fault.kind, fault.block, fault.thread) == ("barrier mismatch", 0, thread) and fault.span.line > 4
    return str(fault)


@pytest.mark.parametrize("mode", ["independent", "stack"])
@pytest.mark.parametrize("one", EACH, ids=lambda one: one.split(".")[0])
def test_by_whole_warps(one, mode):
    launched(one, mode)
    assert "its guard holds for 16 threads of 32" in refused(f"{HALF}@%p1 {one}", mode)
    refused(f"{HALF}@%p1 bra A; bra E; A: {one} E: add.s32 %r1, %r1, 1;", mode)
    refused(f"{HALF}@%p1 exit; {one}", mode, 16)
    assert "some threads of the warp are elsewhere" in refused(f"{HALF}@%p1 bra A; {one} bra E; A: {one} E: add.s32 %r1, %r1, 1;", mode)


def test_barriers_in_branches():
    refused(f"{HALF}@%p1 bar.sync 0; @!%p1 bar.sync 0;", "independent")
    assert "at different places" in refused(f"{HALF}@%p1 bra A; bar.sync 0; bra E; A: bar.sync 0; E: add.s32 %r1, %r1, 1;", "independent")
    launched(f"{HALF}@%p1 bra A; barrier.sync 0; bra E; A: barrier.sync 0; E: add.s32 %r1, %r1, 1;", "independent")
    launched(f"{HALF}@%p1 exit; bar.sync 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", "independent")


def test_who_is_late_is_waited_for():
    """Sides of a branch of different length, and the way they meet again stands before one of them in the text."""
    launched(f"{HALF}@%p1 bra A; B: {MMA} bra E; A: add.s32 %r1, %r1, 1; add.s32 %r1, %r1, 2; bra B; E: add.s32 %r1, %r1, 1;", "independent")
