"""`ref` parameters: a device function fills and changes its caller's local array; arrays by value are copies."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(thread[1])
def fill(a: ref(int[4]) @ thread[1], start: int @ thread[1]):
    for i in range(4):
        a[i] = start + i


@device
@requires(thread[1])
def total(a: int[4] @ thread[1]) -> int @ thread[1]:
    for i in range(1, 4):
        a[0] += a[i]
    return a[0]


@kernel
@requires(grid[1], block[1], thread[32])
def use(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=2 * t) as mine:
            with group(thread[1]):
                a: int[4]
                fill(a, 10 * t)
                mine[0] = total(a)
                mine[1] = a[0]  # the copy was changed, not this


def check():
    out = np.zeros((32, 2), np.int32)
    use[1](out)
    t = np.arange(32)
    np.testing.assert_array_equal(out[:, 0], 40 * t + 6)
    np.testing.assert_array_equal(out[:, 1], 10 * t)
