"""Threads that wait for what nobody will do are a deadlock, in every schedule; threads that wait for somebody who is slow are not."""

from __future__ import annotations

import time

import numpy as np
import pytest
from ptx.test_machine import kernel

from snap.ptx import PtxFault, run
from snap.ptx.machine import waiting

SPIN = "again: ld.volatile.global.u32 %r3, [%d0]; setp.eq.s32 %p1, %r3, 0; @%p1 bra again;"
HALF = "setp.lt.s32 %p2, %r0, 32;"
MADE = ".shared .align 8 .b64 bar[2]; mov.u32 %r4, bar; setp.eq.s32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [%r4], {0}; @%p1 mbarrier.init.shared::cta.b64 [%r4+8], {0}; bar.sync 0;"
WAIT = "w{0}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r4+{0}], 0; @!%p1 bra w{0};"
DEAD = {
    "an mbarrier lacks an arrival": (MADE.format(65) + "mbarrier.arrive.shared::cta.b64 %d1, [%r4];" + WAIT.format(0), "whose phase 0 lacks 1 of 65 arrivals"),
    "an mbarrier lacks bytes": (MADE.format(64) + "mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [%r4], 16;" + WAIT.format(0), "whose phase 0 lacks 1024 bytes"),
    "two mbarriers, each for the other": (
        MADE.format(32) + HALF + "@%p2 bra second;" + WAIT.format(8) + "mbarrier.arrive.shared::cta.b64 %d1, [%r4]; bra.uni out;"
        " second: x: mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r4], 0; @!%p1 bra x; mbarrier.arrive.shared::cta.b64 %d1, [%r4+8]; out:",
        "lacks 32 of 32 arrivals",
    ),
    "a flag that nobody sets": (SPIN, "run here"),
    "a lock that nobody releases": ("again: atom.global.cas.b32 %r3, [%d0+4], 0, 1; setp.ne.s32 %p1, %r3, 0; @%p1 bra again;", "run"),
    "some at a barrier": (HALF + "@%p2 bra out;" + SPIN + "out: bar.sync 0;", "run here"),
    "a barrier in the loop": ("again: bar.sync 0; ld.volatile.global.u32 %r3, [%d0]; setp.eq.s32 %p1, %r3, 0; @%p1 bra again;", "block 0"),
    "threads of one warp": ("setp.ne.s32 %p2, %r0, 3; @%p2 bra out;" + SPIN + "out: bar.warp.sync -1;", "block 0, thread 3 runs here"),
    "pauses that grow to a bound": ("mov.u32 %r5, 1; again: nanosleep.u32 %r5; shl.b32 %r5, %r5, 1; min.u32 %r5, %r5, 1024; ld.volatile.global.u32 %r3, [%d0]; setp.eq.s32 %p1, %r3, 0; @%p1 bra again;", "run"),
    "nothing at all": ("forever: bra.uni forever;", "threads 0-63 run here"),
    "after long work": ("mov.u32 %r5, 3000; work: sub.u32 %r5, %r5, 1; st.global.u32 [%d0+8], %r5; setp.ne.u32 %p1, %r5, 0; @%p1 bra work;" + SPIN, "run"),
}


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("name", DEAD)
def test_a_deadlock_is_called_so(name, seed):
    body, said = DEAD[name]
    with pytest.raises(PtxFault) as caught:
        run(kernel("ld.param.u64 %d0, [p0];" + body, 1), "k", 1, 64, [np.zeros(4, np.uint32) + np.array([0, 1, 0, 0], np.uint32)], seed=seed, limit=3_000_000)
    d = caught.value.diagnostic
    labels = [d.label, *(label.text for label in d.secondary)]
    assert caught.value.kind == "deadlock" and any(said in label for label in labels), str(caught.value)


def test_of_many_threads_it_is_found_soon():
    """132 blocks of 256 threads wait for a block that was never launched."""
    start = time.process_time()
    with pytest.raises(PtxFault, match="33792 threads wait, and no thread can go on"):
        run(kernel("ld.param.u64 %d0, [p0]; st.global.u32 [%d0+4], %r0;" + SPIN, 1), "k", 132, 256, [np.zeros(4, np.uint32)])
    assert time.process_time() - start < 5


# The first half works for long, while the other waits for it; nothing is written meanwhile.
SLOW = "ld.param.u64 %d0, [p0];" + HALF + "@%p2 bra slow;" + SPIN + "bra.uni out; slow: {work} setp.eq.s32 %p1, %r0, 0; @%p1 st.volatile.global.u32 [%d0], 1; out:"
COUNT = "mov.u32 %r5, {times}; work: sub.u32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 0; @%p1 bra work;"
LIVE = {
    "counts in a register": SLOW.format(work=COUNT.format(times=1500)),
    "counts in local memory": ".local .align 4 .b32 n[1];"
    + SLOW.format(work="st.local.u32 [n], 1000; work: ld.local.u32 %r5, [n]; sub.u32 %r5, %r5, 1; st.local.u32 [n], %r5; mov.u32 %r6, %r5; mov.u32 %r5, 0; setp.ne.u32 %p1, %r6, 0; mov.u32 %r6, 0; @%p1 bra work;"),
    "counts in global memory": SLOW.format(
        work="setp.ne.u32 %p3, %r0, 0; @%p3 bra out; work: ld.global.u32 %r5, [%d0+12]; add.u32 %r5, %r5, 1; st.global.u32 [%d0+12], %r5; setp.ne.u32 %p1, %r5, 300; mov.u32 %r5, 0; @%p1 bra work;"
    ),
    "looks at the clock": SLOW.format(work="mov.u64 %d2, %clock64; work: mov.u64 %d3, %clock64; sub.u64 %d4, %d3, %d2; setp.lt.u64 %p1, %d4, 5000; @%p1 bra work;"),
    "another thread of the warp": "ld.param.u64 %d0, [p0]; setp.eq.s32 %p2, %r0, 3; @%p2 bra slow; " + SPIN + " bra.uni out; slow: " + COUNT.format(times=12) + "st.volatile.global.u32 [%d0], 1; out:",
    "counts carries": "ld.param.u64 %d0, [p0];" + COUNT.format(times=1500),
    # Warps count to 31 and to 37, over and over, until both are at the end: each is often where it was before.
    "barriers that hand on data": HALF + "selp.b32 %r4, 31, 37, %p2; mov.u32 %r5, 0; again: add.u32 %r5, %r5, 1; setp.ge.u32 %p1, %r5, %r4; selp.b32 %r5, 0, %r5, %p1; bar.red.and.pred %p3, 0, %p1; @!%p3 bra again;",
    "an mbarrier that is late": MADE.format(32) + HALF + "@%p2 bra slow;" + WAIT.format(0) + "bra.uni out; slow: " + COUNT.format(times=1500) + "mbarrier.arrive.shared::cta.b64 %d1, [%r4]; out:",
}


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("name", LIVE)
def test_who_is_slow_is_waited_for(name, seed):
    run(kernel(LIVE[name], 1), "k", 1, 64, [np.zeros(4, np.uint32)], seed=seed)


LOOK = "ld.volatile.global.u32 %r3, [%d0]; setp.eq.s32 %p1, %r3, 0; @%p1 bra again;"
LATER = {
    "a time is taken": "again: mov.u64 %d2, %clock64;" + LOOK,
    "until a time that nobody lives to see": "mov.u64 %d2, %globaltimer; again: mov.u64 %d3, %globaltimer; sub.u64 %d3, %d3, %d2; setp.lt.u64 %p1, %d3, 1000000000000; @%p1 bra again;",
    "pauses that end with the clock": "again: mov.u64 %d2, %clock64; pause: mov.u64 %d3, %clock64; sub.u64 %d4, %d3, %d2; setp.lt.u64 %p1, %d4, 100; @%p1 bra pause;" + LOOK,
    "pauses that grow": "mov.u32 %r5, 1; again: nanosleep.u32 %r5; add.u32 %r5, %r5, 1;" + LOOK,
    "turns are counted": "mov.u32 %r5, 0; again: add.u32 %r5, %r5, 1;" + LOOK,
    "some at a barrier": HALF + "@%p2 bra out; again: mov.u64 %d2, %clock64;" + LOOK + "out: bar.sync 0;",
}


@pytest.mark.parametrize("mode, seed", [("independent", None), ("independent", 1), ("stack", None)])
@pytest.mark.parametrize("name", LATER)
def test_who_waits_by_the_clock_is_stopped(name, mode, seed, monkeypatch):
    """By a bound, which is lower here: such loops are never where they were, and may end."""
    monkeypatch.setattr(waiting, "WORK", 300_000)
    with pytest.raises(PtxFault, match="64 threads wait, and for .* instructions nothing has changed but clocks and registers") as caught:
        run(kernel("ld.param.u64 %d0, [p0];" + LATER[name], 1), "k", 1, 64, [np.zeros(4, np.uint32)], seed=seed, mode=mode)
    assert caught.value.kind == "too long" and "raise `limit=`" in caught.value.diagnostic.help


@pytest.mark.parametrize("mode, seed", [("independent", None), ("stack", None)])
@pytest.mark.parametrize("name", ["counts in a register", "an mbarrier that is late"])
def test_who_computes_is_waited_for_longer_than_the_bound(name, mode, seed, monkeypatch):
    monkeypatch.setattr(waiting, "WORK", 100_000)
    run(kernel(LIVE[name], 1), "k", 1, 64, [np.zeros(4, np.uint32)], seed=seed, mode=mode)


def test_the_bound_is_raised_by_the_limit(monkeypatch):
    """The clock ends the loop after 2,000 instructions, in which nothing changes."""
    monkeypatch.setattr(waiting, "WORK", 200_000)
    loop = kernel("mov.u64 %d2, %clock64; again: mov.u64 %d3, %clock64; sub.u64 %d3, %d3, %d2; setp.lt.u64 %p1, %d3, 2000; @%p1 bra again;", 1)
    with pytest.raises(PtxFault, match="32 threads wait"):
        run(loop, "k", 1, 32, [np.zeros(4, np.uint32)])
    run(loop, "k", 1, 32, [np.zeros(4, np.uint32)], limit=10_000_000)
    run(loop, "k", 1, 32, [np.zeros(4, np.uint32)], limit=None)
