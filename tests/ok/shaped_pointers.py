"""Pointers with a shape of parameters and constants, in three dimensions."""

from __future__ import annotations

import numpy as np

from snap import *

DEPTH = 3


@kernel(threads=64, where=lambda C, R: R * C <= 2**30)
def rotate(a: ptr(const(int), (R, C, DEPTH)), b: ptr(int, (DEPTH, R, C)), R: int, C: int):
    with each(thread, b, shape=(R, C)) as (i, j):
        for d in range(DEPTH):
            b[d, i, j] = a[i, j, d]


def check():
    a = np.arange(11 * 7 * 3, dtype=np.int32).reshape(11, 7, 3)
    b = np.zeros((3, 11, 7), np.int32)
    rotate[2](a, b, 11, 7)
    np.testing.assert_array_equal(b, a.transpose(2, 0, 1))
