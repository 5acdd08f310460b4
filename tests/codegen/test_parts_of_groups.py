"""Collectives of parts of a warp, and of clusters and grids: what the text says, and that it compiles."""

from __future__ import annotations

import pytest

from snap import *

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

N = 8


@kernel(threads=64)
def parts(x: ptr(const(int)), out: ptr(int), by: int):
    i: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=i) as mine, group(thread[N]):
        v: int @ thread[1] = x[i]
        mine[0] = int(intrinsic.ballot(v > 3))
        mine[0] = intrinsic.shfl_xor(v, by)
        mine[0] = intrinsic.shfl_xor(v, 9)
        mine[0] = intrinsic.shfl(v, by)
        mine[0] = intrinsic.reduce_add(v, where=v > 2)
        mine[0] = int(intrinsic.match_all(v))
        mine[0] = int(intrinsic.elect())
        intrinsic.syncwarp()


@kernel(threads=64)
def parts_apart(x: ptr(const(int)), out: ptr(int), by: int):
    i: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=i) as mine, group(thread[N]):
        v: int @ thread[1] = x[i]
        some: u32 @ thread[N] = intrinsic.ballot(v > 3)
        if some > 7:
            mine[0] = int(intrinsic.ballot(v > 3))
            mine[0] = intrinsic.shfl(v, by)
            mine[0] = intrinsic.reduce_add(v, where=v > 2)
            mine[0] = int(intrinsic.match_all(v))
            intrinsic.syncwarp()


MASK, LANES = "0xffffffffu", "0xffu << (threadIdx.x & 24)"


def test_parts_vote_within_the_warp():
    """All lanes of the warp come by."""
    text = parts.cuda()
    assert f"snap_ballot_within({LANES}, v > 3) >> (threadIdx.x & 24)" in text and f"__ballot_sync({MASK}, vote) & lanes;" in text
    assert f"__shfl_xor_sync({MASK}, v, by & 7, 8)" in text and f"__shfl_xor_sync({MASK}, v, 1, 8)" in text
    assert f"__shfl_sync({MASK}, v, by, 8)" in text
    assert f"snap_reduce_add_i32_of<8>({MASK}, v > 2 ? v : 0)" in text
    assert f"snap_match_all_i32_within({LANES}, v) >> (threadIdx.x & 24)" in text
    assert "threadIdx.x % 8 == 0" in text and "__syncwarp();" in text
    assert parts.cubin(arch="sm_80") and parts.cubin(arch="sm_90a")


def test_parts_that_come_alone_have_masks_of_their_own():
    text = parts_apart.cuda()
    text = text[text.index("if (some > 7u)") :]
    assert f"snap_ballot_of<8, 8, 8>({LANES}, v > 3) >> (threadIdx.x & 24)" in text
    assert f"__shfl_sync({LANES}, v, by, 8)" in text
    assert f"snap_reduce_add_i32_of<8>({LANES}, v > 2 ? v : 0)" in text
    assert f"snap_match_all_i32_of<8, 8, 8>({LANES}, v) >> (threadIdx.x & 24)" in text
    assert f"__syncwarp({LANES});" in text and MASK not in text
    assert parts_apart.cubin(arch="sm_80") and parts_apart.cubin(arch="sm_90a")


ELEMENTS = {"i8": i8, "u16": u16, "i32": i32, "u32": u32, "i64": i64, "u64": u64, "f16": f16, "bf16": bf16, "f32": f32, "f64": f64}


@pytest.mark.parametrize("name", ELEMENTS)
def test_reductions_of_parts_compile_for_every_type(name):
    T = ELEMENTS[name]

    @kernel(threads=64)
    def reduces(x: ptr(const(T)), out: ptr(T)):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, group(thread[4]):
            mine[0] = intrinsic.reduce_add(x[i]) + intrinsic.reduce_min(x[i], where=i > 3) + intrinsic.reduce_max(x[i], where=i > 3) + intrinsic.shfl_up(x[i], 1)

    assert reduces.cubin(arch="sm_80")


@kernel(threads=64, cluster=2, cooperative=True)
def decide(x: ptr(const(float)), out: ptr(float)):
    i: int @ thread[1] = id()
    going: bool = intrinsic.any_grid(x[i] > 1.0)
    v: float = intrinsic.broadcast_grid(x[i], source=70)
    with each(cluster, out):
        c: int = intrinsic.count_cluster(x[i] > 1.0)
        u: float = intrinsic.broadcast_cluster(x[i], source=70)
        with each(thread, out):
            out[i] = v + u + float(c) + float(going)


def test_grids_meet_in_the_words_of_their_barrier():
    """Places of one round are not those of the next, and what a vote has counted is cleared before its end is told."""
    text = decide.cuda()
    assert "snap_grid_vote(grid_barrier, x[i] > 1.0f) != 0" in text and "snap_grid_broadcast_f32(grid_barrier, x[i], 1, 6)" in text
    assert "words + 16 + (round >> 31) * 8" in text and "words[4 + round % 2]" in text
    vote = text[text.index("int snap_grid_vote") : text.index("extern")]
    assert vote.index("atomicExch(words + 2, 0u)") < vote.index("words[1] = 0;") < vote.index("atomicExch(words + 3, round + 1)")
    assert "snap_cluster_broadcast_f32(x[i], 1, 6)" in text
    assert decide._the_one({}).module.grid_barrier == 32 and decide.cubin(arch="sm_90a")
