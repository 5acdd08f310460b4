"""Races in PTX: what orders two accesses and what does not, one small program each; kernels with one barrier taken out of their PTX are reported,
the kernels themselves are not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from corpus import OK
from ptx.test_machine import kernel as module

from snap import *
from snap import PTX
from snap.host.compile.nvrtc import compile_ptx
from snap.host.errors import LaunchError
from snap.host.launch import Launcher
from snap.ptx import PtxFault, run

ALL = ("races", "uninitialized", "nc")
RACECHECK = Path(__file__).resolve().parents[1] / "gpu" / "racecheck.cu"


def said(text: str, grid=1, block=64, arguments=None, checks=("races",), **more) -> str:
    """The kind of what is reported, or nothing."""
    try:
        run(text, "k", grid, block, [np.zeros(512, np.uint32)] if arguments is None else arguments, checks=checks, limit=2_000_000, **more)
    except PtxFault as fault:
        return fault.kind
    return ""


# Thread 0 writes words[1] and then says so in words[0]; a thread of another warp, or of another block, waits for that and reads words[1].
PASSING = """
ld.param.u64 %d0, [p0]; mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x;
setp.ne.s32 %p1, {me}, 0; @%p1 bra reader;
setp.ne.s32 %p2, %r3, 0; @%p2 bra done;
st.global.u32 [%d0+4], 7;
{before}
{say}
bra.uni done;
reader:
setp.ne.s32 %p2, {me}, {other}; @%p2 bra done;
again: {hear} setp.eq.s32 %p3, %r5, 0; @%p3 bra again;
{after}
ld.global.u32 %r6, [%d0+4];
done:
"""
RELEASE, ACQUIRE = "st.release.{s}.global.u32 [%d0], 1;", "ld.acquire.{s}.global.u32 %r5, [%d0];"
RELAXED, HEARD = "st.relaxed.{s}.global.u32 [%d0], 1;", "ld.relaxed.{s}.global.u32 %r5, [%d0];"
ADD = "atom.relaxed.{s}.global.add.u32 %r7, [%d0], 1;"


@pytest.mark.parametrize(
    "say, hear, before, after, scope, apart, races",
    [
        (RELEASE, ACQUIRE, "", "", "gpu", True, False),
        (RELEASE, ACQUIRE, "", "", "cta", False, False),
        (RELEASE, ACQUIRE, "", "", "cta", True, True),  # a block's scope does not reach another block
        (RELAXED, ACQUIRE, "", "", "gpu", True, True),
        (RELEASE, HEARD, "", "", "gpu", True, True),
        (RELAXED, HEARD, "fence.acq_rel.gpu;", "fence.acq_rel.gpu;", "gpu", True, False),
        (RELAXED, HEARD, "membar.gl;", "membar.gl;", "gpu", True, False),
        (RELAXED, HEARD, "membar.cta;", "membar.gl;", "gpu", True, True),
        (RELAXED, HEARD, "membar.cta;", "membar.cta;", "cta", False, False),
        (RELAXED, HEARD, "", "membar.gl;", "gpu", True, True),
        (RELAXED, HEARD, "membar.gl;", "", "gpu", True, True),
        (ADD, ACQUIRE, "membar.gl;", "", "gpu", True, False),
        (RELEASE, ADD.replace("%r7", "%r5").replace("], 1", "], 0"), "", "fence.acq_rel.gpu;", "gpu", True, False),
        ("st.volatile.global.u32 [%d0], 1;", "ld.volatile.global.u32 %r5, [%d0];", "membar.gl;", "membar.gl;", "gpu", True, False),
        ("st.volatile.global.u32 [%d0], 1;", "ld.volatile.global.u32 %r5, [%d0];", "", "", "gpu", True, True),
        (RELAXED, HEARD, "fence.release.gpu;", "fence.acquire.gpu;", "gpu", True, False),
        (RELAXED, HEARD, "fence.acquire.gpu;", "fence.acquire.gpu;", "gpu", True, True),
        (RELAXED, HEARD, "fence.release.gpu;", "fence.release.gpu;", "gpu", True, True),
        (RELAXED, HEARD, "fence.mbarrier_init.release.cluster;", "fence.acquire.gpu;", "gpu", True, True),
    ],
)
def test_passing_a_message(say, hear, before, after, scope, apart, races):
    me, other = ("%r4", 1) if apart else ("%r3", 32)
    text = module(PASSING.format(me=me, other=other, say=say.format(s=scope), hear=hear.format(s=scope), before=before, after=after), 1)
    assert said(text, 2 if apart else 1) == ("race" if races else "")


def test_another_store_ends_a_release():
    """Block 0 releases, block 1 overwrites the word without a release, block 2 reads that: it has not heard of block 0."""
    body = """
    ld.param.u64 %d0, [p0]; mov.u32 %r4, %ctaid.x;
    setp.eq.s32 %p1, %r4, 1; @%p1 bra second; setp.eq.s32 %p1, %r4, 2; @%p1 bra third;
    st.global.u32 [%d0+4], 7; st.release.gpu.global.u32 [%d0], 1; bra.uni done;
    second: ld.relaxed.gpu.global.u32 %r5, [%d0]; setp.ne.s32 %p2, %r5, 1; @%p2 bra second; st.relaxed.gpu.global.u32 [%d0], 2; bra.uni done;
    third: ld.relaxed.gpu.global.u32 %r5, [%d0]; setp.ne.s32 %p2, %r5, 2; @%p2 bra third; ld.acquire.gpu.global.u32 %r5, [%d0]; ld.global.u32 %r6, [%d0+4];
    done:
    """
    assert said(module(body, 1), 3, 1) == "race"
    assert said(module(body.replace("st.relaxed.gpu.global.u32 [%d0], 2;", "atom.relaxed.gpu.global.add.u32 %r7, [%d0], 1;"), 1), 3, 1) == ""


TO, FROM = "mov.u32 %r3, %tid.x; shl.b32 %r4, %r3, 2; mov.u32 %r6, s; add.u32 %r4, %r4, %r6; st.shared.u32 [%r4], %r3;", "{xor} shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r6; ld.shared.u32 %r7, [%r5];"
SHARED = ".shared .align 16 .b32 s[64]; " + TO + " {between} " + FROM
NEAR, FAR = "xor.b32 %r5, %r3, 1;", "xor.b32 %r5, %r3, 32;"


@pytest.mark.parametrize(
    "between, xor, races",
    [
        ("bar.sync 0;", FAR, False),
        ("bar.sync 1, 64;", FAR, False),
        ("barrier.sync 2;", FAR, False),
        ("bar.red.popc.u32 %r8, 0, %p1;", FAR, False),
        ("bar.warp.sync -1;", NEAR, False),
        ("bar.warp.sync -1;", FAR, True),
        ("", FAR, True),
        ("", NEAR, True),  # threads of one warp do not run in step
        ("shfl.sync.idx.b32 %r8, %r3, 0, 31, -1;", NEAR, True),  # a shuffle orders no memory
        ("bar.sync 1, 32;", FAR, True),  # two barriers, one after the other
        ("membar.cta;", FAR, True),  # a fence alone orders nothing
        ("setp.lt.s32 %p1, %r3, 32; @%p1 bar.arrive 1, 64; @!%p1 bar.sync 1, 64; @%p1 bra out;", FAR, False),
    ],
)
def test_shared_memory(between, xor, races):
    assert said(module(SHARED.format(between=between, xor=xor) + " out:", 1)) == ("race" if races else "")


@pytest.mark.parametrize(
    "entry, grid, block, cluster, races",
    [
        *((f"_Z{name}ILb{plain}EEvPi", 2, 128, 1, False) for name in ("6arrive", "7elected") for plain in (0, 1)),
        *((name, 4, 32, 4, False) for name in ("together", "apart", "apart_alone")),
        *((name, 4, 32, 4, True) for name in ("early", "missing")),
    ],
)
def test_what_racecheck_is_asked(entry, grid, block, cluster, races):
    """tests/gpu/racecheck.cu: which of its kernels are right."""
    pytest.importorskip("cuda.bindings.nvrtc")
    text = compile_ptx(RACECHECK.read_text(), "sm_90a")
    for seed in range(8):
        out = np.zeros(256, np.int32)
        try:
            run(text, entry, grid, block, [out], cluster=cluster, checks=("races",), seed=seed)
            assert not races
        except PtxFault as fault:
            assert races and fault.kind == "race" and "later" in str(fault), fault
        if cluster > 1 and not races:
            lane = np.arange(32)
            assert (out[:128].reshape(4, 32) == 100 + (lane + 11) % 32 + (lane + 31) % 32).all()


# Thread 0 of the cluster writes a word of global memory, then all arrive at the cluster's barrier; `reader` reads it.
CLUSTER = """
ld.param.u64 %d0, [p0]; mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x; shl.b32 %r5, %r4, 6; add.u32 %r3, %r3, %r5; setp.ne.s32 %p1, %r3, 0; @%p1 bra all;
st.global.u32 [%d0], 7; {fence}
all: barrier.cluster.arrive{order}; barrier.cluster.wait; setp.ne.s32 %p1, %r3, {reader}; @%p1 bra out; ld.global.u32 %r6, [%d0]; out:
"""
NEAR_READER, FAR_READER = 32, 64  # of the same block, of the other one


@pytest.mark.parametrize(
    "fence, order, reader, races",
    [
        ("", "", FAR_READER, False),
        ("", ".release", FAR_READER, False),
        ("", ".relaxed", FAR_READER, True),
        ("", ".relaxed", NEAR_READER, True),
        ("fence.acq_rel.cluster;", ".relaxed", FAR_READER, False),
        ("fence.release.cluster;", ".relaxed", FAR_READER, False),
        ("fence.acquire.cluster;", ".relaxed", FAR_READER, True),
        ("fence.sc.gpu;", ".relaxed", FAR_READER, False),
        ("membar.cta;", ".relaxed", NEAR_READER, False),
        ("membar.cta;", ".relaxed", FAR_READER, True),  # the fence does not reach the other block
        ("fence.mbarrier_init.release.cluster;", ".relaxed", FAR_READER, True),  # it is of mbarriers that are made
    ],
)
def test_fences_before_a_relaxed_barrier_of_a_cluster(fence, order, reader, races):
    text = module(CLUSTER.format(fence=fence, order=order, reader=reader), 1)
    for seed in (None, 1, 2):
        assert said(text, 2, cluster=2, seed=seed) == ("race" if races else "")


# Thread 0 of each block makes an mbarrier; another warp arrives at it and waits for it, behind the cluster's barrier.
MAKING = """
.shared .align 8 .b64 bar[1]; mov.u32 %r4, bar; setp.ne.s32 %p1, %r0, 0; @%p1 bra all;
mbarrier.init.shared::cta.b64 [%r4], 1; {fence}
all: barrier.cluster.arrive.relaxed; barrier.cluster.wait; setp.ne.s32 %p1, %r0, 32; @%p1 bra out;
mbarrier.arrive.shared::cta.b64 %d1, [%r4]; again: mbarrier.test_wait.shared::cta.b64 %p2, [%r4], %d1; @!%p2 bra again; out:
"""


@pytest.mark.parametrize(
    "fence, races",
    [("", True), ("fence.mbarrier_init.release.cluster;", False), ("fence.acq_rel.cluster;", False), ("fence.acquire.cluster;", True), ("fence.proxy.async;", True)],
)
def test_an_mbarrier_that_was_just_made(fence, races):
    for seed in (None, 1, 2):
        assert said(module(MAKING.format(fence=fence), 1), 2, cluster=2, seed=seed) == ("race" if races else "")


# Thread 0 writes, and is the one that arrives at an mbarrier; thread 32 waits for that, and reads.
ARRIVING = """
.shared .align 8 .b64 bar[1]; ld.param.u64 %d0, [p0]; mov.u32 %r4, bar; setp.eq.s32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [%r4], 1; bar.sync 0; @!%p1 bra waits;
st.global.u32 [%d0], 7; {before} mbarrier.arrive{arrive}.shared::cta.b64 %d1, [%r4]; bra.uni out;
waits: setp.ne.s32 %p1, %r0, 32; @%p1 bra out; again: mbarrier.try_wait.parity{wait}.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra again; {after} ld.global.u32 %r6, [%d0]; out:
"""


@pytest.mark.parametrize(
    "before, arrive, wait, after, races",
    [
        ("", "", "", "", False),
        ("", ".relaxed.cta", "", "", True),
        ("", "", ".relaxed.cta", "", True),
        ("", ".release.cta", ".acquire.cta", "", False),
        ("fence.acq_rel.cta;", ".relaxed.cta", "", "", False),
        ("", "", ".relaxed.cta", "fence.acq_rel.cta;", False),
        ("fence.acq_rel.cluster;", ".relaxed.cluster", ".relaxed.cluster", "fence.acquire.cta;", False),
        ("fence.acq_rel.cluster;", ".relaxed.cluster", ".relaxed.cluster", "fence.release.cta;", True),
        ("fence.mbarrier_init.release.cluster;", ".relaxed.cta", "", "", True),
    ],
)
def test_fences_and_relaxed_mbarriers(before, arrive, wait, after, races):
    for seed in (None, 1, 2):
        assert said(module(ARRIVING.format(before=before, arrive=arrive, wait=wait, after=after), 1), 1, seed=seed) == ("race" if races else "")


def test_what_fence_mbarrier_init_releases_is_handed_on():
    """Thread 0 makes an mbarrier, says so by a relaxed flag to thread 32, which says so to thread 64 by a barrier of warps."""
    body = """
    .shared .align 8 .b64 bar[1]; .shared .align 4 .b32 flag[1]; mov.u32 %r4, bar; mov.u32 %r5, flag; setp.eq.s32 %p1, %r0, 0; @%p1 st.shared.u32 [%r5], 0; bar.sync 0; @!%p1 bra others;
    mbarrier.init.shared::cta.b64 [%r4], 1; FENCE st.relaxed.cluster.shared::cta.u32 [%r5], 1; bra.uni out;
    others: setp.ge.s32 %p2, %r0, 64; @%p2 bra third; setp.lt.s32 %p2, %r0, 32; @%p2 bra out; again: ld.acquire.cluster.shared::cta.u32 %r6, [%r5]; setp.eq.s32 %p2, %r6, 0; @%p2 bra again; bar.sync 1, 64; bra.uni out;
    third: bar.sync 1, 64; setp.eq.s32 %p2, %r0, 64; @%p2 mbarrier.arrive.shared::cta.b64 %d1, [%r4]; out:
    """
    assert said(module(body.replace("FENCE", "fence.mbarrier_init.release.cluster;"), 1), 1, 96) == ""
    assert said(module(body.replace("FENCE", ""), 1), 1, 96) == "race"


def test_atomics_and_plain_accesses():
    """An atomic has seen those before it: who was the last of all may clear the word; whoever looks without one may not."""
    last = "ld.param.u64 %d0, [p0]; atom.global.add.u32 %r3, [%d0], 1; setp.ne.s32 %p1, %r3, 127; @%p1 bra out; st.global.u32 [%d0], 0; out:"
    assert said(module(last, 1), 2) == ""
    assert said(module(last.replace("127", "100"), 1), 2) == "race"
    assert said(module("ld.param.u64 %d0, [p0]; red.global.add.u32 [%d0], 1; ld.global.u32 %r3, [%d0];", 1), 1, 32) == "race"


def test_an_atomic_before_a_plain_write_has_not_seen_it():
    body = "ld.param.u64 %d0, [p0]; red.global.add.u32 [%d0], 1; bar.warp.sync -1; setp.eq.s32 %p1, %r0, 0; @%p1 st.global.u32 [%d0], 5; setp.eq.s32 %p2, %r0, 20; @%p2 ld.global.u32 %r3, [%d0];"
    assert said(module(body, 1), 1, 32) == "race"


def test_an_atomic_does_not_order_what_came_before_it():
    """The counter's own accesses are ordered by it; what its threads wrote elsewhere is not, without a fence."""
    body = "ld.param.u64 %d0, [p0]; setp.eq.s32 %p2, %r0, 0; @%p2 st.global.u32 [%d0+8], 1; atom.global.add.u32 %r3, [%d0], 1; setp.ne.s32 %p1, %r3, 63; @%p1 bra out; ld.global.u32 %r4, [%d0+8]; out:"
    assert said(module(body, 1), 1, 64) == "race"


def test_a_copy_in_flight():
    copy = ".shared .align 16 .b32 s[64]; ld.param.u64 %d0, [p0]; mov.u32 %r3, s; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4; cvt.u64.u32 %d1, %r4; add.s64 %d0, %d0, %d1; cp.async.ca.shared.global [%r3], [%d0], 4; {wait} ld.shared.u32 %r5, [%r3];"
    for wait, races in (
        ("cp.async.wait_all;", False),
        ("cp.async.commit_group; cp.async.wait_group 0;", False),
        ("cp.async.commit_group; cp.async.wait_group 1;", True),
        ("cp.async.commit_group;", True),
        ("cp.async.wait_group 0;", True),  # nothing was committed
    ):
        assert said(module(copy.format(wait=wait), 1)) == ("race" if races else ""), wait


def test_a_report_names_both_lines_and_threads():
    body = "\n.loc 1 7 0\nld.param.u64 %d0, [p0];\nst.global.u32 [%d0+8], %r0;\n.loc 1 9 0\nld.global.u32 %r3, [%d0+8];"
    with pytest.raises(PtxFault) as caught:
        run(module(body, 1).replace(".visible", '.file 1 "mine.cu"\n.visible'), "k", 2, 1, [np.zeros(4, np.uint32)], checks="races")
    d = caught.value.diagnostic
    assert d.message == "data race on element 2 of `argument p0`"
    assert (d.span.line, d.label) == (12, "block 0, thread 0 reads") or (d.span.line, d.label) == (12, "block 1, thread 0 reads") or d.label.endswith("writes")
    assert len(d.secondary) == 1 and d.secondary[0].text.startswith(("block 0, thread 0 writes", "block 1, thread 0 writes"))
    assert "from mine.cu:7" in d.note and (caught.value.block, caught.value.thread) in ((0, 0), (1, 0))


# ---- the other checks ----------------------------------------------------------------------------------------------------------------------------


def test_shared_memory_that_nobody_wrote():
    some = ".shared .align 4 .b32 s[64]; mov.u32 %r4, s; shl.b32 %r5, %r0, 2; add.u32 %r4, %r4, %r5; setp.ne.s32 %p1, %r0, 5; {write} bar.sync 0; ld.shared.u32 %r6, [%r4];"
    assert said(module(some.format(write="@%p1 st.shared.u32 [%r4], 0;"), 1), checks=["uninitialized"]) == "uninitialized"
    assert said(module(some.format(write="st.shared.u32 [%r4], 0;"), 1), checks=["uninitialized"]) == ""
    assert said(module(some.format(write=""), 1)) == ""  # it was not asked for


@pytest.mark.parametrize("order", ["{read} bar.sync 0; {write}", "{write} bar.sync 0; {read}"])
def test_reads_past_coherence_of_what_is_written(order):
    read, write = "ld.global.nc.u32 %r3, [%d0+4];", "setp.ne.s32 %p1, %r0, 3; @!%p1 st.global.u32 [%d0+4], 1;"
    body = "ld.param.u64 %d0, [p0];" + order.format(read=read, write=write)
    assert said(module(body, 1), checks=["nc"]) == "not coherent"
    assert said(module(body.replace("[%d0+4], 1", "[%d0+8], 1"), 1), checks=["nc"]) == ""
    assert said(module(body.replace(".nc", ""), 1), checks=["nc"]) == ""


def test_no_such_check():
    with pytest.raises(ValueError, match="there is no check 'raecs': checks= takes 'races', 'uninitialized', 'nc'"):
        run(module("", 1), "k", 1, 32, [np.zeros(1)], checks=["raecs"])


# ---- what NVRTC makes of kernels -----------------------------------------------------------------------------------------------------------------


@kernel(threads=64)
def sums(x: ptr(const(int)), out: ptr(int)):
    with each(block, out) as b:
        s: shared(int[64])
        with each(thread, s) as t:
            s[t] = x[64 * b + t]
        for k in unroll(range(2)):
            step: int = 32 >> k
            with group(block[1]):
                with each(thread, s, shape=step) as t:
                    s[t] += s[t + step] if k == 5 else 1
        with each(thread, out) as t:
            out[64 * b + t] = s[63 - t]


def _without(text: str, pattern: str) -> list[str]:
    """The text with one line each that matches taken out."""
    lines = text.splitlines()
    return ["\n".join(lines[:k] + lines[k + 1 :]) for k, line in enumerate(lines) if re.search(pattern, line)]


def test_barriers_taken_out_of_the_ptx_are_reported():
    pytest.importorskip("cuda.bindings.nvrtc")
    text = sums.ptx()
    given = lambda: [np.arange(128, dtype=np.int32), np.zeros(128, np.int32)]  # noqa: E731
    run(text, "sums", 2, 64, given(), checks=ALL)
    mutants = _without(text, r"^\s*bar\.sync")
    assert mutants
    for mutant in mutants:
        with pytest.raises(PtxFault) as caught:
            run(mutant, "sums", 2, 64, given(), checks=ALL)
        assert caught.value.kind == "race" and caught.value.line[0].endswith("test_races.py")


@kernel(threads=32)
def more(x: ptr(const(int)), y: ptr(int)):
    with each(thread, y) as i:
        y[i] = x[i] + 1


def test_const_and_restrict_on_memory_that_is_written():
    """NVRTC loads what is promised to be constant past coherence: given one array twice, the promise is false."""
    pytest.importorskip("cuda.bindings.nvrtc")
    assert "const int* __restrict__ x" in more.cuda() and "ld.global.nc" in more.ptx()
    a = np.arange(64, dtype=np.int32)
    run(more.ptx(), "more", 2, 32, [a, np.zeros_like(a)], checks=ALL)
    with pytest.raises(PtxFault, match="is read through `.nc` in a grid that writes it") as caught:
        run(more.ptx(), "more", 2, 32, [a, a], checks=ALL)
    assert caught.value.kind == "not coherent" and "without `const` and `__restrict__` together" in caught.value.diagnostic.help


# Each of these has its kind of order: barriers of blocks, warps and parts, cp.async, fences between blocks, clusters, mbarriers with TMA and wgmma.
SAMPLE = ("block_sums", "split_sync", "barriers_by_hand", "async_copies", "cooperative", "lookback_scan", "cluster_exchange", "shuffles", "atomics", "ping_pong", "tf32_boxes")


@pytest.mark.parametrize("name", SAMPLE)
def test_the_corpus_is_free_of_reports(name, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    _checked(monkeypatch, ALL)
    program = next(p for p in OK if p.name == f"tests/ok/{name}.py").execute()
    (program.get("check") or program.get("main"))()


def test_clusters_in_drawn_schedules_are_free_of_reports(monkeypatch):
    """mbarriers are made behind `fence.mbarrier_init` and a relaxed barrier of the cluster."""
    pytest.importorskip("cuda.bindings.nvrtc")
    _checked(monkeypatch, ["races"], seed=1)
    program = next(p for p in OK if p.name == "tests/ok/cluster_rows.py").execute()
    (program.get("check") or program.get("main"))()


@pytest.mark.parametrize("name, pattern", [("boxes", r"fence\.proxy"), ("cooperative", r"^\s*membar\.gl"), ("async_copies", r"cp\.async\.wait_group")])
def test_what_orders_copies_products_and_blocks_taken_out(name, pattern, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    from snap.host import simulate

    compiled = simulate.compile_ptx

    def mutant(text, *args, **more):
        return next(iter(_without(compiled(text, *args, **more), pattern)), compiled(text, *args, **more))

    monkeypatch.setattr(simulate, "compile_ptx", mutant)
    _checked(monkeypatch, ["races"])
    program = next(p for p in OK if p.name == f"tests/ok/{name}.py").execute()
    with pytest.raises(PtxFault) as caught:
        (program.get("check") or program.get("main"))()
    assert caught.value.kind == "race"


def _checked(monkeypatch, checks, **options) -> None:
    """Every launch on the CPU machine goes to the PTX machine, with these checks."""
    from snap.ptx.machine import launch

    monkeypatch.setattr(launch, "run", lambda *args, **more: run(*args, **(more | {"checks": checks} | options)))
    on_cpu = Launcher._run_on_cpu

    def instead(self, bound, blocks, seed, *others):
        if blocks and seed is None:
            self._run_ptx(bound, blocks, None, None, None, {})
        else:
            on_cpu(self, bound, blocks, seed, *others)

    monkeypatch.setattr(Launcher, "_run_on_cpu", instead)


def test_a_launch_can_be_checked():
    pytest.importorskip("cuda.bindings.nvrtc")
    x, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    sums.launch(x, out, blocks=2, target=PTX(checks=ALL))
    for target, checks, message in (("ptx", ["raecs"], "there is no check 'raecs'"), ("cpu", ["races"], '`k.races` looks for races on the CPU machine')):
        with pytest.raises(LaunchError, match=message):
            sums.launch(x, out, blocks=2, target=target, checks=checks)
