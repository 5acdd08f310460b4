"""A generic device function, called with two values of its parameter from one kernel."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(thread[1])
def power(x: int @ thread[1], N: constexpr(int)) -> int @ thread[1]:
    r: int = 1
    for i in range(N):
        r *= x
    return r


@kernel
@requires(grid[1], block[1], thread[32])
def powers(square: ptr(int) @ grid[1], cube: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(square, p=thread[1], offset=i) as s, partition(cube, p=thread[1], offset=i) as c:
            with group(thread[1]):
                s[0] = power(i, 2)
                c[0] = power(i, 3)


def check():
    square, cube = np.zeros(32, np.int32), np.zeros(32, np.int32)
    powers[1](square, cube)
    i = np.arange(32)
    np.testing.assert_array_equal(square, i**2)
    np.testing.assert_array_equal(cube, i**3)
