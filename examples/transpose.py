"""B = transpose of A, through a padded shared tile, generic in the tile.

Rows are read and rows are written, so both sides are coalesced; the turn happens in shared memory.  One column of padding keeps the
32 threads that read a column of the tile on 32 different banks.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *


@kernel
@requires(lambda TILE, ROWS: (grid[1], block[1], thread[TILE * ROWS]))
def transpose(
    a: ptr(const(float), (M, N)) @ grid[1],
    b: ptr(float, (N, M)) @ grid[1],
    M: int @ grid[1],
    N: int @ grid[1],
    TILE: constexpr(int),
    ROWS: constexpr(int),
):
    with group(grid[1]):
        across: int = (N + TILE - 1) / TILE
        row0: int @ block[1] = id() / across * TILE
        col0: int @ block[1] = id() % across * TILE
        with partition(b, p=block[1], f=lambda i, j: (col0 + i, row0 + j)) as b_tile:
            with group(block[1]):
                tile: shared(float[TILE, TILE + 1])
                x: int @ thread[1] = id() % TILE
                y: int @ thread[1] = id() / TILE
                with partition(tile, p=thread[1], f=lambda i: (y + i, x)) as column:
                    with group(thread[1]):
                        for i in range(0, TILE, ROWS):
                            if row0 + y + i < M and col0 + x < N:
                                column[i] = a[row0 + y + i, col0 + x]
                with partition(b_tile, p=thread[1], f=lambda i: (y + i, x)) as out:
                    with group(thread[1]):
                        for i in range(0, TILE, ROWS):
                            if col0 + y + i < N and row0 + x < M:
                                out[i] = tile[x, y + i]


def main():
    rng = np.random.default_rng(0)
    for tile, rows, m, n in ((32, 8, 64, 96), (32, 8, 37, 101), (16, 4, 1, 53), (8, 8, 7, 7)):
        a = rng.standard_normal((m, n), dtype=np.float32)
        blocks = blocks_for(m, tile) * blocks_for(n, tile)
        compare(f"transpose, {m} x {n} by tiles of {tile}", transpose, blocks, [a, np.zeros((n, m), np.float32), m, n, tile, rows], {1: a.T})


if __name__ == "__main__":
    main()
