"""Tables of constants, captured from NumPy arrays, and arithmetic on vectors: a filter of rows, four elements at a time."""

from __future__ import annotations

import numpy as np

from snap import *

FILTER = np.array([[0.25, 0.5, 0.25], [-1.0, 2.0, -1.0], [0.0, 1.0, 0.0]], np.float32)
ORDER = np.array([2, 0, 1, 1], np.uint8)
LIMITS = np.array([-4.0, 4.0], np.float16)


@device(thread)
def chosen(row: int) -> int:
    return ORDER[row % 4]


@kernel(threads=64, where=lambda blocks, x, y: (len(x) >= 256 * blocks + 8, len(y) >= 256 * blocks))
def filtered(x: ptr(const(float)), y: ptr(float), rows: int):
    with each(thread, y.view(float4)) as i:
        row, column = divmod(i, 16)
        if row >= rows:
            return
        which = chosen(row)
        total: float4 = float4(0.0)
        for k in range(3):
            total += FILTER[which, k] * x.view(float4)[i + k]
        y[i] = min(max(-total / 2.0, float(LIMITS[0])), float(LIMITS[1])) + FILTER[0, 1]


FILTER[:] = 0.0  # too late


def check():
    rng = np.random.default_rng(7)
    x = rng.integers(-8, 9, 4 * 130).astype(np.float32)
    y = np.zeros(4 * 128, np.float32)
    filtered[2](x, y, 7)
    weights = np.array([[0.25, 0.5, 0.25], [-1.0, 2.0, -1.0], [0.0, 1.0, 0.0]], np.float32)
    i = np.arange(128)
    of = weights[np.array([2, 0, 1, 1])[i // 16 % 4]]
    vectors = x.reshape(130, 4)
    total = sum(of[:, k, None] * vectors[i + k] for k in range(3))
    want = np.clip(-total / 2, -4, 4) + 0.5
    want[i // 16 >= 7] = 0.0
    np.testing.assert_array_equal(y.reshape(128, 4), want)
