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


def test_parts_of_a_warp_have_masks_of_their_own():
    text, mask = parts.cuda(), "0xffu << (threadIdx.x & 24)"
    assert f"__ballot_sync({mask}, v > 3) >> (threadIdx.x & 24)" in text
    assert f"__shfl_xor_sync({mask}, v, by & 7, 8)" in text and f"__shfl_xor_sync({mask}, v, 1, 8)" in text
    assert f"__shfl_sync({mask}, v, by, 8)" in text
    assert f"snap_reduce_add_i32_of<8>({mask}, v > 2 ? v : 0)" in text
    assert f"snap_match_all_i32_of({mask}, v) >> (threadIdx.x & 24)" in text
    assert "threadIdx.x % 8 == 0" in text and f"__syncwarp({mask});" in text and "0xffffffffu" not in text
    assert parts.cubin(arch="sm_80") and parts.cubin(arch="sm_90a")


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
