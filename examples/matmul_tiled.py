"""C = A * B with tiles of both in shared memory: each element of A and B is read from global memory once per tile instead of once per thread.

Each step of the loop needs two barriers: the tiles must be full before any thread computes, and all threads must have computed before the
tiles are overwritten.  The compiler infers both.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *


@kernel(threads=lambda TILE: TILE * TILE, where=lambda N, K, blocks: (1 <= N <= 2**30, K <= 2**30, blocks <= 2**26))
def matmul_tiled(
    a: ptr(const(float), (M, K)), b: ptr(const(float), (K, N)), c: ptr(float, (M, N)), M: int, N: int, K: int, TILE: constexpr(int)
):
    with each(block, shape=(..., (N + TILE - 1) / TILE)) as (bi, bj):
        a_tile, b_tile, acc = shared(float[TILE, TILE]), shared(float[TILE, TILE]), registers(0.0)
        y, x = ids(thread, shape=(TILE, TILE))
        row, col = bi * TILE + y, bj * TILE + x
        for k0 in range(0, K, TILE):
            with each(thread, a_tile, b_tile):
                # Beyond the edge of the matrix the tiles hold zeros, so the loop below needs no guard.
                a_tile[y, x] = a[row, k0 + x] if row < M and k0 + x < K else 0.0
                b_tile[y, x] = b[k0 + y, col] if k0 + y < K and col < N else 0.0
            for k in range(TILE):
                acc += a_tile[y, k] * b_tile[k, x]
        with each(thread, c):
            if row < M and col < N:
                c[row, col] = acc


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
