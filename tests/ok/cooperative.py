"""A cooperative kernel may take memory back at grid level: the grid barrier is inferred."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[64], cooperative=True)
def shift_twice(a: ptr(int) @ grid[1], b: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(b, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n:
                    mine[0] = a[(i + 1) % n] + 1
        with partition(a, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n:
                    mine[0] = b[(i + 100) % n] * 2


@kernel
@requires(grid[1], block[1], thread[32], cooperative=True)
def by_hand(flags: ptr(int) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        atomic.add(flags, 0, 1)
        intrinsic.sync_grid()
        with partition(out, p=thread[1], offset=i) as mine:
            mine[0] = atomic.load(flags, 0)


def check():
    n = 150
    a, b = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    shift_twice[3](a, b, n)
    first = np.roll(np.arange(n), -1) + 1
    np.testing.assert_array_equal(b, first)
    np.testing.assert_array_equal(a, np.roll(first, -100) * 2)

    flags, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    by_hand[2](flags, out)
    np.testing.assert_array_equal(out, 64)
