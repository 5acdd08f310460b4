"""C = A * B on the tensor cores: 4 warps per block, a 64x64 tile of C per block, a 32x32 tile per warp, any M, N and K.

Each warp holds its tile as 2x4 accumulators of the m16n8k8 instruction.  What registers hold is in their types: A, B and
accumulators (C), which know where their elements lie.  Tiles of A and B are padded so that the 32 lanes of a fragment's load
fall on 32 banks.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

BM, BN, BK = 64, 64, 16  # a block's tile
WM, WN = 32, 32  # a warp's tile
T = 128
PAD_A, PAD_B = 4, 8


@kernel(threads=T, where=lambda N, K, blocks: (1 <= N <= 2**30, K <= 2**30, blocks <= 2**24))
def matmul_tf32(a: ptr(const(float), (M, K)), b: ptr(const(float), (K, N)), c: ptr(float, (M, N)), M: int, N: int, K: int):
    with each(block, shape=(..., (N + BN - 1) / BN)) as (m, n):
        row0, col0 = m * BM, n * BN
        a_tile, b_tile = shared(float[BM, BK + PAD_A]), shared(float[BK, BN + PAD_B])
        acc = registers(fragment.C(float[16, 8])[2, 4])  # local arrays start at zero
        w = ids(warp)
        wm, wn = w / 2 * WM, w % 2 * WN

        for k0 in range(0, K, BK):
            # 128 threads fill 64x16 of A, 16 columns wide, and 16x64 of B, 64 columns wide; zeros beyond the edge.
            with each(thread, a_tile, shape=(..., BK)) as (y, x):
                for i in range(0, BM, T / BK):
                    a_tile[y + i, x] = a[row0 + y + i, k0 + x] if row0 + y + i < M and k0 + x < K else 0.0
            with each(thread, b_tile, shape=(..., BN)) as (y, x):
                for i in range(0, BK, T / BN):
                    b_tile[y + i, x] = b[k0 + y + i, col0 + x] if k0 + y + i < K and col0 + x < N else 0.0

            with each(warp):
                for k in range(0, BK, 8):
                    fa, fb = registers(fragment.A(float[16, 8]), fragment.B(float[8, 8]))
                    for i in range(2):
                        for e in range(4):
                            fa[e] = a_tile[wm + 16 * i + fragment.row(fa, e), k + fragment.column(fa, e)]
                        for j in range(4):
                            for e in range(2):
                                fb[e] = b_tile[k + fragment.row(fb, e), wn + 8 * j + fragment.column(fb, e)]
                            intrinsic.mma(fa, fb, acc[i, j], out=acc[i, j])

        with each(thread, c):
            for i, j, e in range(shape=(2, 4, 4)):
                row, column = row0 + wm + 16 * i + fragment.row(acc, e), col0 + wn + 8 * j + fragment.column(acc, e)
                if row < M and column < N:
                    c[row, column] = acc[i, j, e]


def main():
    rng = np.random.default_rng(0)
    for m, n, k in ((64, 64, 16), (128, 64, 32), (67, 71, 37)):
        a = rng.integers(-8, 8, (m, k)).astype(np.float32)
        b = rng.integers(-8, 8, (k, n)).astype(np.float32)
        blocks = blocks_for(m, BM) * blocks_for(n, BN)
        compare(f"matmul_tf32, {m} x {n} x {k}", matmul_tf32, blocks, [a, b, np.zeros((m, n), np.float32), m, n, k], {2: a @ b})


if __name__ == "__main__":
    main()
