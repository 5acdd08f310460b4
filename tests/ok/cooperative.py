"""A cooperative kernel may take memory back at grid level: the grid barrier is inferred."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, cooperative=True, where=lambda a, b, n: (len(a) >= n, len(b) >= n, 1 <= n <= 2**30))
def shift_twice(a: ptr(int), b: ptr(int), n: int):
    with each(thread, b, shape=n) as i:
        b[i] = a[(i + 1) % n] + 1
    with each(thread, a, shape=n) as i:
        a[i] = b[(i + 100) % n] * 2


@kernel(threads=32, cooperative=True, where=lambda blocks, flags, out: (len(flags) >= 1, len(out) >= 32 * blocks))
def by_hand(flags: ptr(int), out: ptr(int)):
    atomic.add(flags, 0, 1)
    intrinsic.sync_grid()
    with each(thread, out) as i:
        out[i] = atomic.load(flags, 0)


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
