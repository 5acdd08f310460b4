"""A bf16 product of any size: ldmatrix from padded tiles, 2x2 warps, accumulators in registers, a generic device function."""

from __future__ import annotations

import numpy as np

from snap import *

BM, BN, BK, T = 32, 32, 16, 128
PAD = 8


@device(block, thread[T])
def load_tile(src: ptr(const(float), (R, C)), dst: ptr(bf16, (ROWS, COLS + PAD)), R: int, C: int, row0: int, col0: int, ROWS: constexpr(int), COLS: constexpr(int)):
    """Fill a padded tile of ROWS x COLS from src[row0, col0] on; zeros beyond the edge."""
    with each(thread, dst, shape=(..., COLS)) as (y, x):
        for i in range(0, ROWS, T / COLS):
            dst[y + i, x] = bf16(src[row0 + y + i, col0 + x] if row0 + y + i < R and col0 + x < C else 0.0)


@kernel(threads=T, where=lambda N, K, blocks: (1 <= N <= 2**30, K <= 2**30, blocks <= 2**24))
def matmul(a: ptr(const(float), (M, K)), b: ptr(const(float), (K, N)), c: ptr(float, (M, N)), M: int, N: int, K: int):
    with each(block, shape=(..., (N + BN - 1) / BN)) as (m, n):
        row0, col0 = m * BM, n * BN
        sa, sb, acc = shared(bf16[BM, BK + PAD]), shared(bf16[BK, BN + PAD]), registers(float[2, 4])
        l: int @ thread[1] = id() % 32
        wm: int @ warp = id() / 2 * 16
        wn: int @ warp = id() % 2 * 16
        for k0 in range(0, K, BK):
            load_tile(a, sa, M, K, row0, k0, BM, BK)
            load_tile(b, sb, K, N, k0, col0, BK, BN)
            with each(warp):
                fa: bf16[8] @ thread[1]
                intrinsic.ldmatrix(fa, sa[wm + l % 16, l / 16 * 8])
                for j in range(2):
                    fb: bf16[4] @ thread[1]
                    intrinsic.ldmatrix(fb, sb[l % 16, wn + 8 * j], trans=True)
                    intrinsic.mma(
                        fa[0], fa[1], fa[2], fa[3], fa[4], fa[5], fa[6], fa[7],
                        fb[0], fb[1], fb[2], fb[3],
                        acc[j, 0], acc[j, 1], acc[j, 2], acc[j, 3],
                        out=[acc[j, 0], acc[j, 1], acc[j, 2], acc[j, 3]])
        with each(thread, c):
            g, q = row0 + wm + l / 4, col0 + wn + l % 4 * 2
            for j, e in range(shape=(2, 4)):
                if g + e / 2 * 8 < M and q + 8 * j + e % 2 < N:
                    c[g + e / 2 * 8, q + 8 * j + e % 2] = acc[j, e]


def check():
    rng = np.random.default_rng(0)
    for m, n, k in ((32, 32, 16), (37, 41, 29), (1, 1, 1)):
        a, b = rng.integers(-8, 8, (m, k)).astype(np.float32), rng.integers(-8, 8, (k, n)).astype(np.float32)
        c = np.zeros((m, n), np.float32)
        matmul[-(-m // BM) * -(-n // BN)](a, b, c, m, n, k)
        np.testing.assert_array_equal(c, a @ b)
