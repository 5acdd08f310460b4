"""The GEMM to read first: C = A @ B for Hopper, bf16 in and out, sums in f32.

Input:      sizes of tiles; at a launch, row-major matrices whose rows are multiples of 16 bytes
Output:     a kernel, and `launch`, which runs it with a block for each SM
Invariant:  any extents: TMA reads zeros outside of a matrix and does not write there.  Every barrier is inferred
Non-goals:  other layouts and types, bias, divided tiles: the kernels of `kernels.py`, which `snap.lib.gemm` launches

Each block takes one tile after another.  One warpgroup loads: TMA fills a ring of four stages in shared memory.  Two
warpgroups multiply: each has 64 rows of the tile in its registers and reads the stages by wgmma.  A finished tile
leaves through shared memory, 64 columns at a time, by TMA.
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib._gemm.body import in_bands

K_STEP = 64  # of k in a stage: 128 bytes of bf16, a row of a swizzled tile
STAGES = 4
BAND = 1024  # rows of C in a band of tiles: blocks that run together read the same rows and columns


@functools.cache
def hopper_gemm(BM=128, BN=256):
    """Make the kernel for tiles of BM x BN; BM is a multiple of 64, BN of 64."""

    @kernel(
        threads=2 * BM + 128,
        where=lambda M, N, K, blocks: (
            1 <= M <= 2**30,
            1 <= N <= 2**30,
            1 <= K <= 2**30,
            blocks <= 2**16,
            ((M + BM - 1) // BM) * ((N + BN - 1) // BN) <= 2**27,
            ((M + BM - 1) // BM) * ((N + BN - 1) // BN) * ((K + K_STEP - 1) // K_STEP) <= 2**30,
        ),
    )
    def gemm(A: ptr(const(bf16), (M, K)), B: ptr(const(bf16), (K, N)), C: ptr(bf16, (M, N)), M: int, N: int, K: int):
        blocks, down, across = count(block[1]), (M + BM - 1) / BM, (N + BN - 1) / BN
        with each(block, C, disjoint=C) as first:
            A_stages = pipeline(shared(bf16[BM, K_STEP], swizzle=128), STAGES)
            B_stages = pipeline(shared(bf16[BN // 64, K_STEP, 64], swizzle=128), STAGES)
            C_stages = pipeline(shared(bf16[BM // 64, 64, 64], swizzle=128), 2)
            acc = registers(float[BN // 2])
            compute, load = roles(2 * BM, 128, registers=(232, 40))
            for t in range(first, down * across, blocks):
                i, j = in_bands(t, down, across, BAND // BM)
                for k in range((K + K_STEP - 1) / K_STEP):
                    with stage(A_stages) as a, stage(B_stages) as b:
                        with load(a, b):
                            async_copy(a, A, at=(i * BM, k * K_STEP))
                            async_copy(b, B, at=(k * K_STEP, j * BN))
                        with compute(a, b), each(warpgroup) as w:
                            wgmma(acc, tile(a, (64 * w, 0), (64, K_STEP)), b.T, zero=(k == 0))
                for q in unroll(range(BN // 64)):
                    with stage(C_stages) as c, compute(), each(warpgroup, c, C, disjoint=C) as w:
                        store_acc(c[w], acc, first=64 * q)
                        async_copy(C, c[w], at=(i * BM + 64 * w, j * BN + 64 * q))

    return gemm
