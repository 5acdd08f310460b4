"""Decorators in either order, under either name."""

from __future__ import annotations

import numpy as np

from snap import *


@requires(thread[1])
@device
def one(x: int @ thread[1]) -> int @ thread[1]:
    return x + 1


@ccuda("device")
@requires(thread[1])
def two(x: int @ thread[1]) -> int @ thread[1]:
    return one(x) + 1


@requires(thread[1])
@ccuda("device")
def three(x: int @ thread[1]) -> int @ thread[1]:
    return two(x) + 1


@requires(grid[1], block[1], thread[8], where=lambda blocks, out: len(out) >= 8 * blocks)
@kernel
def first(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, group(thread[1]):
            mine[0] = three(i)


@requires(grid[1], block[1], thread[8], where=lambda blocks, out: len(out) >= 8 * blocks)
@ccuda("global")
def second(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, group(thread[1]):
            mine[0] = two(i)


def check():
    out = np.zeros(16, np.int32)
    first[2](out)
    np.testing.assert_array_equal(out, np.arange(16) + 3)
    second[2](out)
    np.testing.assert_array_equal(out, np.arange(16) + 2)
