"""Columns of a cluster of 2 x 2 blocks: what the blocks of a column share is decided by the column's number."""

from __future__ import annotations

import numpy as np

from snap import *

column = block.every(2)[2]


@kernel(threads=32, cluster=4, where=lambda blocks, x, y: (len(x) >= 32 * blocks, len(y) >= 32 * blocks, blocks <= 2**26))
def crossed(x: ptr(const(int)), y: ptr(int)):
    with each(cluster, y) as c:
        s: shared(int[32], across=block)
        b: int @ block[1] = id()
        with each(column, s) as j:
            scale: int = 1 + j
            with each(block, s) as i, each(thread, s) as t:
                s[b, t] = scale * x[128 * c + 32 * b + t] + 1000 * i
        with each(column, y) as j, each(block, y) as i, each(thread, y) as t:
            y[128 * c + 32 * b + t] = s[2 * (1 - i) + j, t]


def check():
    x = np.random.default_rng(0).integers(-50, 50, 256).astype(np.int32)
    y = np.zeros_like(x)
    crossed[8](x, y)
    tiles = x.reshape(2, 2, 2, 32)  # cluster, row, column
    want = tiles * np.array([1, 2])[:, None] + 1000 * np.arange(2)[:, None, None]
    np.testing.assert_array_equal(y.reshape(tiles.shape), want[:, ::-1])
