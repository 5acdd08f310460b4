"""Device functions return values at thread[1], thread[32] and block[1]; calls stand inside expressions."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(thread[1])
def twice(x: int @ thread[1]) -> int @ thread[1]:
    return 2 * x


@device
@requires(thread[32])
def warp_total(x: int @ thread[1]) -> int @ thread[32]:
    return intrinsic.reduce_add(x)


@device
@requires(block[1], thread[64])
def block_total(x: int @ thread[1]) -> int @ block[1]:
    sums: shared(int[2])
    w: int @ warp = id()
    with partition(sums, p=warp, offset=w) as cell:
        with group(warp):
            s: int = warp_total(x)
            with claim(cell, p=thread[1]) as one:
                match split(thread):
                    case 1:
                        one[0] = s
    return sums[0] + sums[1]


@kernel
@requires(grid[1], block[1], thread[64])
def totals(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
                whole: int = block_total(twice(t)) + 1
                mine[0] = whole + twice(twice(t) + 1)


def check():
    out = np.zeros(192, np.int32)
    totals[3](out)
    t = np.tile(np.arange(64), 3)
    np.testing.assert_array_equal(out, 2 * np.arange(64).sum() + 1 + 2 * (2 * t + 1))
