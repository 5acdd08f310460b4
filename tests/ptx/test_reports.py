"""What the PTX machine says when a program cannot go on: the kind, who waits where, and a way out."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.test_machine import kernel

from snap.ptx import PtxFault, run

HALF = "setp.lt.s32 %p1, %r0, 32;"
SOME = "setp.lt.s32 %p1, %r0, 7;"
CASES = {
    "too few come": (f"{SOME} @%p1 bar.sync 1, 64;", "barrier mismatch", "barrier 1 waits for 64 threads, and 7 have come, and 57 of the block have left"),
    "exited threads": (f"{HALF} @%p1 exit; bar.sync 1, 64;", "barrier mismatch", "and 32 have come, and 32 of the block have left"),
    "different barriers": (f"{HALF} @%p1 bar.sync 1; @!%p1 bar.sync 2;", "barrier mismatch", "at different barriers (1, 2)"),
    "different counts": (f"{HALF} @%p1 bar.sync 1, 64; @!%p1 bar.sync 1, 32;", "barrier mismatch", "is one of 64 threads for those who wait there, and here of 32"),
    "a warp parts": (f"{SOME} @%p1 bar.sync 1; @!%p1 bar.sync 1;", "barrier mismatch", "a warp comes to barrier 1 at different places"),
    "a warp in part": (f"{SOME} @%p1 bra out; bar.sync 1, 64; out: @%p1 bar.sync 1, 64;", "barrier mismatch", "a warp comes to barrier 1 at different places"),
    "no such barrier": ("bar.sync %r0;", "barrier mismatch", "barrier 16 of a block, which has 16"),
    "not whole warps": ("mov.u32 %r3, 33; bar.sync 1, %r3;", "barrier mismatch", "barriers are of whole warps"),
    "not in the mask": ("bar.warp.sync 1;", "barrier mismatch", "the mask 0x00000001 does not name this thread"),
    "masks differ": ("mov.u32 %r4, %laneid; setp.eq.s32 %p1, %r4, 0; selp.b32 %r3, -1, 0xfffffffe, %p1; bar.warp.sync %r3;", "barrier mismatch", "gives another mask here"),
    "a member goes another way": ("setp.eq.s32 %p1, %r0, 3; @%p1 bra out; bar.warp.sync -1; out: bar.sync 0;", "deadlock", "bar.warp.sync waits for threads that do not arrive"),
    "endless": ("forever: add.s32 %r3, %r3, 1; bra.uni forever;", "too long", "more than 100000 instructions of threads"),
    "endless, and the same each time": ("forever: bra.uni forever;", "deadlock", "64 threads wait, and no thread can go on: memory does not change any more"),
}


@pytest.mark.parametrize("name", CASES)
def test_who_waits_where(name):
    body, kind, message = CASES[name]
    with pytest.raises(PtxFault) as caught:
        run(kernel(body, 1), "k", 1, 64, [np.zeros(20, np.uint32)], limit=100_000)
    d = caught.value.diagnostic
    assert caught.value.kind == kind and message in d.message, str(caught.value)
    assert d.span.line == 8 and d.label.startswith("block 0, thread")


def test_the_others_are_shown_and_the_lines_of_the_source():
    body = "\n.loc 1 11 0\nsetp.eq.s32 %p1, %r0, 3; @%p1 bra out;\n.loc 1 12 0\nbar.warp.sync -1;\nout:\n.loc 1 14 0\nbar.sync 0;\nbar.warp.sync -1;"
    with pytest.raises(PtxFault) as caught:
        run(kernel(body, 1).replace(".visible", '.file 1 "mine.cu"\n.visible'), "k", 2, 32, [np.zeros(1, np.uint32)])
    d = caught.value.diagnostic
    assert d.label == "block 0, threads 0-2, 4-31 wait for other threads of the warp"
    assert "block 0, thread 3 waits at barrier 0" in [label.text for label in d.secondary]
    assert d.note == "from mine.cu:12; from mine.cu:14" and caught.value.line == ("mine.cu", 12)


def test_a_barrier_for_some_serves_others_after_them():
    """128 threads at a barrier of 64: two warps after two."""
    out = np.zeros(128, np.uint32)
    body = "bar.sync 1, 64; ld.param.u64 %d0, [p0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1; st.global.u32 [%d0], 1;"
    run(kernel(body, 1), "k", 1, 128, [out])
    assert out.all()


def test_inlined_code_is_found_by_its_calls():
    """The innermost call comes first; a call's own place says by which call it came."""
    text = kernel(
        "\n.loc 1 30 2\nmov.u32 %r3, 0;\n.loc 2 7 1, function_name $L0, inlined_at 1 30 2\nmov.u32 %r4, 0;\n.loc 3 5 3, function_name $L0+4, inlined_at 2 7 1\ntrap;", 1
    ).replace(".visible", '.file 1 "k.cu"\n.file 2 "sum.cuh"\n.file 3 "leaf.cuh"\n.visible', 1)
    with pytest.raises(PtxFault) as caught:
        run(text, "k", 1, 1, [np.zeros(1, np.uint32)])
    assert caught.value.diagnostic.note == "from leaf.cuh:5, inlined at sum.cuh:7, inlined at k.cu:30"
    assert caught.value.line == ("leaf.cuh", 5)
