"""`resident=`: how many blocks are to fit a multiprocessor is said in `__launch_bounds__`, and changes nothing else."""

from __future__ import annotations

import numpy as np

from snap import *

T, ITEMS = 256, 16


@kernel
@requires(grid[1], block[1], thread[T], resident=4)
def four_a_multiprocessor(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: i * ITEMS + k) as mine:
            v: float[ITEMS] @ thread[1]
            for k in range(ITEMS):
                v[k] = x[i * ITEMS + k]
            for k in range(ITEMS):
                mine[k] = fma(v[k], v[ITEMS - 1 - k], v[0])


def check():
    x = np.random.default_rng(0).integers(-9, 9, 2 * T * ITEMS).astype(np.float32)
    y = np.zeros_like(x)
    four_a_multiprocessor[2](x, y)
    v = x.reshape(-1, ITEMS)
    np.testing.assert_array_equal(y.reshape(-1, ITEMS), v * v[:, ::-1] + v[:, :1])
