"""C = A * B with tiles of both in shared memory: each element of A and B is read from global memory once per tile instead of once per thread.

Per step of the loop two barriers are needed: the tiles are full before anyone computes, and everyone has computed before the tiles are
overwritten.  Neither is written here.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *


@kernel
@requires(lambda TILE: (grid[1], block[1], thread[TILE * TILE]))
def matmul_tiled(
    a: ptr(const(float), (M, K)) @ grid[1],
    b: ptr(const(float), (K, N)) @ grid[1],
    c: ptr(float, (M, N)) @ grid[1],
    M: int @ grid[1],
    N: int @ grid[1],
    K: int @ grid[1],
    TILE: constexpr(int),
):
    with group(grid[1]):
        across: int = (N + TILE - 1) / TILE
        row0: int @ block[1] = id() / across * TILE
        col0: int @ block[1] = id() % across * TILE
        with partition(c, p=block[1], f=lambda i, j: (row0 + i, col0 + j)) as c_tile:
            with group(block[1]):
                a_tile: shared(float[TILE, TILE])
                b_tile: shared(float[TILE, TILE])
                x: int @ thread[1] = id() % TILE
                y: int @ thread[1] = id() / TILE
                row: int @ thread[1] = row0 + y
                col: int @ thread[1] = col0 + x
                acc: float @ thread[1] = 0.0
                for k0 in range(0, K, TILE):
                    with partition(a_tile, p=thread[1], f=lambda k: (y, x + k)) as a_mine:
                        with partition(b_tile, p=thread[1], f=lambda k: (y, x + k)) as b_mine:
                            # Beyond the edge of the matrix the tiles hold zeros, so the loop below needs no guard.
                            a_mine[0] = a[row, k0 + x] if row < M and k0 + x < K else 0.0
                            b_mine[0] = b[k0 + y, col] if k0 + y < K and col < N else 0.0
                    for k in range(TILE):
                        acc += a_tile[y, k] * b_tile[k, x]
                with partition(c_tile, p=thread[1], f=lambda k: (y, x + k)) as mine:
                    with group(thread[1]):
                        if row < M and col < N:
                            mine[0] = acc


def main():
    rng = np.random.default_rng(0)
    for tile, m, n, k in ((16, 16, 16, 16), (16, 48, 32, 64), (16, 17, 29, 31), (8, 1, 11, 3)):
        a = rng.standard_normal((m, k), dtype=np.float32)
        b = rng.standard_normal((k, n), dtype=np.float32)
        blocks = blocks_for(m, tile) * blocks_for(n, tile)
        compare(f"matmul_tiled, {m} x {n} x {k} by tiles of {tile}", matmul_tiled, blocks, [a, b, np.zeros((m, n), np.float32), m, n, k, tile],
                {2: a.astype(np.float64) @ b}, atol=1e-4)


if __name__ == "__main__":
    main()
