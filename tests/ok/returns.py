"""`return` where no group is left behind: early in a kernel, early and late in a device function."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(thread[1])
def sign(x: int @ thread[1]) -> int @ thread[1]:
    if x < 0:
        return -1
    if x == 0:
        return 0
    return 1


@device
@requires(thread[1])
def first_divisor(n: int @ thread[1]) -> int @ thread[1]:
    for d in range(2, n):
        if n % d == 0:
            return d
    return n


@kernel
@requires(grid[1], block[1], thread[32])
def classify(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], n: int @ grid[1]):
    if n == 0:
        return
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n:
                    mine[0] = sign(x[i]) * first_divisor(i + 2)
    return


def check():
    x = np.array([-5, 0, 7, 1, -1, 0, 2, 3], np.int32)
    out = np.zeros(8, np.int32)
    classify[1](x, out, 0)
    assert not out.any()
    classify[1](x, out, 8)
    np.testing.assert_array_equal(out, np.sign(x) * [2, 3, 2, 5, 2, 7, 2, 3])
