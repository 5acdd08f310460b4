"""B = transpose of A, through a padded shared tile, generic in the tile.

Rows are read and rows are written, so both sides are coalesced; the turn happens in shared memory.  One column of padding keeps the
32 threads that read a column of the tile on 32 different banks.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *


@kernel(threads=lambda TILE, ROWS: TILE * ROWS, where=lambda M, N, blocks: (1 <= N <= 2**30, M <= 2**30, blocks <= 2**24))
def transpose(a: ptr(const(float), (M, N)), b: ptr(float, (N, M)), M: int, N: int, TILE: constexpr(int), ROWS: constexpr(int)):
    with each(block, shape=(..., (N + TILE - 1) / TILE)) as (bi, bj):
        row0, col0 = bi * TILE, bj * TILE
        tile: shared(float[TILE, TILE + 1])
        y, x = ids(thread, shape=(ROWS, TILE))
        with each(thread, tile):
            for i in range(0, TILE, ROWS):
                if row0 + y + i < M and col0 + x < N:
                    tile[y + i, x] = a[row0 + y + i, col0 + x]
        with each(thread, b):
            for i in range(0, TILE, ROWS):
                if col0 + y + i < N and row0 + x < M:
                    b[col0 + y + i, row0 + x] = tile[x, y + i]


def main():
    rng = np.random.default_rng(0)
    for tile, rows, m, n in ((32, 8, 64, 96), (32, 8, 37, 101), (16, 4, 1, 53), (8, 8, 7, 7)):
        a = rng.standard_normal((m, n), dtype=np.float32)
        blocks = blocks_for(m, tile) * blocks_for(n, tile)
        compare(f"transpose, {m} x {n} by tiles of {tile}", transpose, blocks, [a, np.zeros((n, m), np.float32), m, n, tile, rows], {1: a.T})


if __name__ == "__main__":
    main()
