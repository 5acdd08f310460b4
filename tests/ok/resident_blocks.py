"""`resident=`: how many blocks are to fit a multiprocessor is said in `__launch_bounds__`, and changes nothing else."""

from __future__ import annotations

import numpy as np

from snap import *

T, ITEMS = 256, 16


@kernel(threads=T, resident=4, where=lambda blocks, x, y: (len(x) >= 4096 * blocks, len(y) >= 4096 * blocks, blocks <= 2**19))
def four_a_multiprocessor(x: ptr(const(float)), y: ptr(float)):
    with each(thread, y) as i:
        v: float[ITEMS] = [x[i * ITEMS + k] for k in range(ITEMS)]
        for k in range(ITEMS):
            y[i * ITEMS + k] = fma(v[k], v[ITEMS - 1 - k], v[0])


def check():
    x = np.random.default_rng(0).integers(-9, 9, 2 * T * ITEMS).astype(np.float32)
    y = np.zeros_like(x)
    four_a_multiprocessor[2](x, y)
    v = x.reshape(-1, ITEMS)
    np.testing.assert_array_equal(y.reshape(-1, ITEMS), v * v[:, ::-1] + v[:, :1])
