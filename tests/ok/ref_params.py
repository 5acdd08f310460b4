"""`ref` parameters: a device function fills and changes its caller's local array; arrays by value are copies."""

from __future__ import annotations

import numpy as np

from snap import *


@device(thread)
def fill(a: ref(int[4]), start: int):
    a = [start + i for i in range(4)]


@device(thread)
def total(a: int[4]) -> int:
    for i in range(1, 4):
        a[0] += a[i]
    return a[0]


@kernel(threads=32, where=lambda blocks, out: (len(out) >= 64 * blocks, blocks <= 2**25))
def use(out: ptr(int)):
    with each(thread, out) as t:
        a: int[4]
        fill(a, 10 * t)
        out[2 * t] = total(a)
        out[2 * t + 1] = a[0]  # the copy was changed, not this


def check():
    out = np.zeros((32, 2), np.int32)
    use[1](out)
    t = np.arange(32)
    np.testing.assert_array_equal(out[:, 0], 40 * t + 6)
    np.testing.assert_array_equal(out[:, 1], 10 * t)
