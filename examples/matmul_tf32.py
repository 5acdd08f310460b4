"""C = A * B on the tensor cores: 4 warps a block, a 64x64 tile of C a block, a 32x32 tile a warp, any M, N and K.

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


@device
@requires(thread[32])
def load_a(s: ptr(const(float), (BM, BK + PAD_A)) @ thread[32], row: int @ thread[32], k: int @ thread[32], frag: ref(float[4]) @ thread[1]):
    """The 16x8 fragment of A that starts at s[row, k]."""
    g: int @ thread[1] = id() / 4
    t: int @ thread[1] = id() % 4
    for i in range(4):
        frag[i] = s[row + g + i % 2 * 8, k + t + i / 2 * 4]


@device
@requires(thread[32])
def load_b(s: ptr(const(float), (BK, BN + PAD_B)) @ thread[32], k: int @ thread[32], col: int @ thread[32], frag: ref(float[2]) @ thread[1]):
    """The 8x8 fragment of B that starts at s[k, col]."""
    g: int @ thread[1] = id() / 4
    t: int @ thread[1] = id() % 4
    for i in range(2):
        frag[i] = s[k + t + i * 4, col + g]


@kernel
@requires(grid[1], block[1], thread[T])
def matmul_tf32(
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
                a_tile: shared(float[BM, BK + PAD_A])
                b_tile: shared(float[BK, BN + PAD_B])
                t: int @ thread[1] = id()
                w: int @ warp = id()
                wm: int @ warp = w / 2 * WM
                wn: int @ warp = w % 2 * WN
                acc: float[2, 4, 4] @ thread[1]  # local arrays start at zero

                for k0 in range(0, K, BK):
                    # 128 threads fill 64x16 of A, 16 columns wide, and 16x64 of B, 64 columns wide; zeros beyond the edge.
                    ax: int @ thread[1] = t % BK
                    ay: int @ thread[1] = t / BK
                    with partition(a_tile, p=thread[1], f=lambda i: (ay + i, ax)) as a_mine:
                        for i in range(0, BM, T / BK):
                            a_mine[i] = a[row0 + ay + i, k0 + ax] if row0 + ay + i < M and k0 + ax < K else 0.0
                    bx: int @ thread[1] = t % BN
                    by: int @ thread[1] = t / BN
                    with partition(b_tile, p=thread[1], f=lambda i: (by + i, bx)) as b_mine:
                        for i in range(0, BK, T / BN):
                            b_mine[i] = b[k0 + by + i, col0 + bx] if k0 + by + i < K and col0 + bx < N else 0.0

                    with group(warp):
                        for k in range(0, BK, 8):
                            fa: float[4] @ thread[1]
                            fb: float[2] @ thread[1]
                            for i in range(2):
                                load_a(a_tile, wm + 16 * i, k, fa)
                                for j in range(4):
                                    load_b(b_tile, k, wn + 8 * j, fb)
                                    intrinsic.mma(
                                        fa[0], fa[1], fa[2], fa[3],
                                        fb[0], fb[1],
                                        acc[i, j, 0], acc[i, j, 1], acc[i, j, 2], acc[i, j, 3],
                                        out=[acc[i, j, 0], acc[i, j, 1], acc[i, j, 2], acc[i, j, 3]])

                g: int @ thread[1] = t % 32 / 4
                q: int @ thread[1] = t % 4 * 2
                with partition(c_block, p=thread[1], f=lambda i, j: (wm + g + i, wn + q + j)) as mine:
                    with group(thread[1]):
                        for i in range(2):
                            for j in range(4):
                                for e in range(4):
                                    if row0 + wm + g + 16 * i + e / 2 * 8 < M and col0 + wn + q + 8 * j + e % 2 < N:
                                        mine[16 * i + e / 2 * 8, 8 * j + e % 2] = acc[i, j, e]


def main():
    rng = np.random.default_rng(0)
    for m, n, k in ((64, 64, 16), (128, 64, 32), (67, 71, 37)):
        a = rng.integers(-8, 8, (m, k)).astype(np.float32)
        b = rng.integers(-8, 8, (k, n)).astype(np.float32)
        blocks = blocks_for(m, BM) * blocks_for(n, BN)
        compare(f"matmul_tf32, {m} x {n} x {k}", matmul_tf32, blocks, [a, b, np.zeros((m, n), np.float32), m, n, k], {2: a @ b})


if __name__ == "__main__":
    main()
