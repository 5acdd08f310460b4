"""`return` where no group is left behind: early in a kernel, early and late in a device function."""

from __future__ import annotations

import numpy as np

from snap import *


@device(thread)
def sign(x: int) -> int:
    if x < 0:
        return -1
    if x == 0:
        return 0
    return 1


@device(thread)
def first_divisor(n: int) -> int:
    for d in range(2, n):
        if n % d == 0:
            return d
    return n


@kernel(threads=32, where=lambda n, out, x: (len(x) >= n, len(out) >= n))
def classify(x: ptr(const(int)), out: ptr(int), n: int):
    if n == 0:
        return
    with each(thread, out) as i:
        if i >= n:
            return
        out[i] = sign(x[i]) * first_divisor(i + 2)


def check():
    x = np.array([-5, 0, 7, 1, -1, 0, 2, 3], np.int32)
    out = np.zeros(8, np.int32)
    classify[1](x, out, 0)
    assert not out.any()
    classify[1](x, out, 8)
    np.testing.assert_array_equal(out, np.sign(x) * [2, 3, 2, 5, 2, 7, 2, 3])
