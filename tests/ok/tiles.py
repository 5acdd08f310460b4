"""`tile(x, at, shape)`: a window of an object, indexed from its own corner, passed on as an argument."""

from __future__ import annotations

import numpy as np

from snap import *


@device(warp)
def total(t: ptr(const(int), (4, 8))) -> int:
    l: int @ thread[1] = id()
    return intrinsic.reduce_add(t[l / 8, l % 8])


@kernel(threads=64, where=lambda blocks, out: (len(out) >= 4, blocks == 1))
def sums(a: ptr(const(int), (8, 16)), out: ptr(int)):
    with each(block):
        s: shared(int[8, 16])
        with each(thread, s) as t:
            if t < 16:
                for k in range(8):
                    s[k, t] = a[k, t]
        with each(warp, out) as w:
            v, near = total(tile(s, (4, 8 * w), (4, 8))), tile(s, (0, 8 * w), (4, 8))[1, 2]
            with one(thread, out):
                out[2 * w], out[2 * w + 1] = v, near


def check():
    a = np.arange(128, dtype=np.int32).reshape(8, 16)
    out = np.zeros(4, np.int32)
    sums[1](a, out)
    np.testing.assert_array_equal(out, [a[4:, :8].sum(), a[1, 2], a[4:, 8:].sum(), a[1, 10]])
