"""Pointers with a shape of parameters and constants, in three dimensions."""

from __future__ import annotations

import numpy as np

from snap import *

DEPTH = 3


@kernel
@requires(grid[1], block[1], thread[64])
def rotate(a: ptr(const(int), (R, C, DEPTH)) @ grid[1], b: ptr(int, (DEPTH, R, C)) @ grid[1], R: int @ grid[1], C: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(b, p=thread[1], f=lambda d: (d, i / C, i % C)) as mine:
            with group(thread[1]):
                if i < R * C:
                    for d in range(DEPTH):
                        mine[d] = a[i / C, i % C, d]


def check():
    a = np.arange(11 * 7 * 3, dtype=np.int32).reshape(11, 7, 3)
    b = np.zeros((3, 11, 7), np.int32)
    rotate[2](a, b, 11, 7)
    np.testing.assert_array_equal(b, a.transpose(2, 0, 1))
