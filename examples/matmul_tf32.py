"""C = A * B on the tensor cores: 4 warps per block, a 64x64 tile of C per block, a 32x32 tile per warp, any M, N and K.

Each warp holds its tile as 2x4 accumulators of the m16n8k8 instruction.  The fragments' layout is written once, in two small
functions.  Tiles of A and B are padded so that the 32 lanes of a fragment's load fall on 32 banks.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

BM, BN, BK = 64, 64, 16  # a block's tile
WM, WN = 32, 32  # a warp's tile
T = 128
PAD_A, PAD_B = 4, 8


@device(warp)
def load_a(s: ptr(const(float), (BM, BK + PAD_A)), row: int, k: int, frag: ref(float[4])):
    """Load the 16x8 fragment of A that starts at s[row, k]."""
    g, t = ids(thread, shape=(..., 4))
    frag = [s[row + g + i % 2 * 8, k + t + i / 2 * 4] for i in range(4)]


@device(warp)
def load_b(s: ptr(const(float), (BK, BN + PAD_B)), k: int, col: int, frag: ref(float[2])):
    """Load the 8x8 fragment of B that starts at s[k, col]."""
    g, t = ids(thread, shape=(..., 4))
    frag = [s[k + t + i * 4, col + g] for i in range(2)]


@kernel(threads=T, where=lambda N, K, blocks: (1 <= N <= 2**30, K <= 2**30, blocks <= 2**24))
def matmul_tf32(a: ptr(const(float), (M, K)), b: ptr(const(float), (K, N)), c: ptr(float, (M, N)), M: int, N: int, K: int):
    with each(block, shape=(..., (N + BN - 1) / BN)) as (m, n):
        row0, col0 = m * BM, n * BN
        a_tile, b_tile = shared(float[BM, BK + PAD_A]), shared(float[BK, BN + PAD_B])
        acc = registers(float[2, 4, 4])  # local arrays start at zero
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
                    fa, fb = registers(float[4], float[2])
                    for i in range(2):
                        load_a(a_tile, wm + 16 * i, k, fa)
                        for j in range(4):
                            load_b(b_tile, k, wn + 8 * j, fb)
                            intrinsic.mma(fa, fb, acc[i, j], out=acc[i, j])

        with each(thread, c) as t:
            for i, j, e in range(shape=(2, 4, 4)):
                row, column = row0 + wm + t % 32 / 4 + 16 * i + e / 2 * 8, col0 + wn + t % 4 * 2 + 8 * j + e % 2
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
