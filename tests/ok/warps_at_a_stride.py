"""Warps 0, 2, 4, 6 and warps 1, 3, 5, 7: each four wait for one another, at a barrier of their own, and no one else."""

from __future__ import annotations

import numpy as np

from snap import *

every_other = warp.every(2)[4]


@device(warp)
def total(v: int @ thread[1]) -> int:
    return intrinsic.reduce_add(v)


@kernel(threads=256, where=lambda blocks, x, y: (len(x) >= 256 * blocks, len(y) >= 256 * blocks, blocks <= 2**23))
def reversed_sums(x: ptr(const(int)), y: ptr(int)):
    with each(block, y) as b:
        s: shared(int[2, 128])
        with each(every_other, s, y) as e:
            for k in range(1 + e):  # as often as the four of them agree
                with each(thread, s) as t:
                    s[e, t] = x[256 * b + 128 * e + t] + k
                with each(thread, y) as t:
                    y[256 * b + 128 * e + t] += s[e, 127 - t]
            with each(warp, y) as w:
                sum: int = total(w + id())
                with one(thread, y):
                    y[256 * b + 128 * e + 32 * w] += sum


@kernel(threads=256, where=lambda blocks, y: (len(y) >= 256 * blocks, blocks <= 2**23))
def two_of_four(y: ptr(int)):
    """The first two of each four warps exchange what they have written; the last two have nothing to wait for."""
    with each(block, y) as b:
        s: shared(int[2, 64])
        with each(every_other, s, y) as e:
            with one(warp.every(2)[2], s, y):
                with each(thread, s) as t:
                    s[e, t] = t
                with each(thread, y) as t:
                    y[256 * b + 64 * e + t] = s[e, 63 - t]


def check():
    x = np.random.default_rng(0).integers(-50, 50, 512).astype(np.int32)
    y = np.zeros_like(x)
    reversed_sums[2](x, y)
    want = x.reshape(2, 2, 128)[:, :, ::-1].astype(np.int64)
    want[:, 1] = 2 * want[:, 1] + 1
    for w in range(4):
        want[:, :, 32 * w] += 32 * w + 496
    np.testing.assert_array_equal(y.reshape(want.shape), want)
    y[:] = 0
    two_of_four[2](y)
    want = np.zeros((2, 4, 64), int)
    want[:, :2] = np.arange(64)[::-1]
    np.testing.assert_array_equal(y.reshape(want.shape), want)
