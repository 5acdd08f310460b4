"""A generic device function, called with two values of its parameter from one kernel."""

from __future__ import annotations

import numpy as np

from snap import *


@device(thread)
def power(x: int, N: constexpr(int)) -> int:
    r: int = 1
    for i in range(N):
        r *= x
    return r


@kernel(threads=32, where=lambda blocks, cube, square: (len(square) >= 32 * blocks, len(cube) >= 32 * blocks))
def powers(square: ptr(int), cube: ptr(int)):
    with each(thread, square, cube) as i:
        square[i] = power(i, 2)
        cube[i] = power(i, 3)


def check():
    square, cube = np.zeros(32, np.int32), np.zeros(32, np.int32)
    powers[1](square, cube)
    i = np.arange(32)
    np.testing.assert_array_equal(square, i**2)
    np.testing.assert_array_equal(cube, i**3)
