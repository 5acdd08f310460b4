"""A bf16 product of any size: ldmatrix from padded tiles, 2x2 warps, accumulators in registers, a generic device function."""

from __future__ import annotations

import numpy as np

from snap import *

BM, BN, BK, T = 32, 32, 16, 128
PAD = 8


@device
@requires(block[1], thread[T])
def load_tile(
    src: ptr(const(float), (R, C)) @ block[1],
    dst: ptr(bf16, (ROWS, COLS + PAD)) @ block[1],
    R: int @ block[1],
    C: int @ block[1],
    row0: int @ block[1],
    col0: int @ block[1],
    ROWS: constexpr(int),
    COLS: constexpr(int),
):
    """Fill a padded tile of ROWS x COLS from src[row0, col0] on; zeros beyond the edge."""
    x: int @ thread[1] = id() % COLS
    y: int @ thread[1] = id() / COLS
    with partition(dst, p=thread[1], f=lambda i: (y + i, x)) as column:
        for i in range(0, ROWS, T / COLS):
            column[i] = bf16(src[row0 + y + i, col0 + x] if row0 + y + i < R and col0 + x < C else 0.0)


@kernel
@requires(grid[1], block[1], thread[T])
def matmul(
    a: ptr(const(float), (M, K)) @ grid[1],
    b: ptr(const(float), (K, N)) @ grid[1],
    c: ptr(float, (M, N)) @ grid[1],
    M: int @ grid[1],
    N: int @ grid[1],
    K: int @ grid[1],
):
    with group(grid[1]):
        across: int = (N + BN - 1) / BN
        row0: int @ block[1] = id() / across * BM
        col0: int @ block[1] = id() % across * BN
        with partition(c, p=block[1], f=lambda i, j: (row0 + i, col0 + j)) as c_block:
            with group(block[1]):
                sa: shared(bf16[BM, BK + PAD])
                sb: shared(bf16[BK, BN + PAD])
                l: int @ thread[1] = id() % 32
                wm: int @ warp = id() / 2 * 16
                wn: int @ warp = id() % 2 * 16
                acc: float[2, 4] @ thread[1]
                for k0 in range(0, K, BK):
                    load_tile(a, sa, M, K, row0, k0, BM, BK)
                    load_tile(b, sb, K, N, k0, col0, BK, BN)
                    with group(warp):
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
                g: int @ thread[1] = wm + l / 4
                q: int @ thread[1] = wn + l % 4 * 2
                with partition(c_block, p=thread[1], f=lambda i, j: (g + i, q + j)) as mine:
                    with group(thread[1]):
                        for j in range(2):
                            for e in range(4):
                                if row0 + g + e / 2 * 8 < M and col0 + q + 8 * j + e % 2 < N:
                                    mine[e / 2 * 8, 8 * j + e % 2] = acc[j, e]


def check():
    rng = np.random.default_rng(0)
    for m, n, k in ((32, 32, 16), (37, 41, 29), (1, 1, 1)):
        a, b = rng.integers(-8, 8, (m, k)).astype(np.float32), rng.integers(-8, 8, (k, n)).astype(np.float32)
        c = np.zeros((m, n), np.float32)
        matmul[-(-m // BM) * -(-n // BN)](a, b, c, m, n, k)
        np.testing.assert_array_equal(c, a @ b)
