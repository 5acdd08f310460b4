"""Device functions return values at thread[1], thread[32] and block[1]; calls stand inside expressions."""

from __future__ import annotations

import numpy as np

from snap import *


@device(thread)
def twice(x: int) -> int:
    return 2 * x


@device(warp)
def warp_total(x: int @ thread[1]) -> int:
    return intrinsic.reduce_add(x)


@device(block, thread[64])
def block_total(x: int @ thread[1]) -> int:
    sums: shared(int[2])
    with each(warp, sums) as w:
        s: int = warp_total(x)
        with one(thread, sums):
            sums[w] = s
    return sums[0] + sums[1]


@kernel(threads=64, where=lambda blocks, out: (len(out) >= 64 * blocks, blocks <= 2**25))
def totals(out: ptr(int)):
    with each(block) as b:
        t: int @ thread[1] = id()
        whole: int = block_total(twice(t)) + 1
        with each(thread, out):
            out[64 * b + t] = whole + twice(twice(t) + 1)


def check():
    out = np.zeros(192, np.int32)
    totals[3](out)
    t = np.tile(np.arange(64), 3)
    np.testing.assert_array_equal(out, 2 * np.arange(64).sum() + 1 + 2 * (2 * t + 1))
