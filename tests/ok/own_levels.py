"""Levels of one's own, as `warp` is: from the module, from a closure and inside a kernel; counted, split and required."""

from __future__ import annotations

import numpy as np

from snap import *

quad = thread[4]


def half_of(level):
    """A function for twice the level that it is given."""

    @device(level[2])
    def total(v: int @ thread[1]) -> int:
        return intrinsic.reduce_add(v)

    return total


of_eight = half_of(quad)


@kernel(threads=64, where=lambda blocks: blocks == 1)
def levels(out: ptr(int, (4, 64))):
    oct = quad[2]
    pairs: constexpr(int) = 2
    with each(block, out):
        q, t = ids(quad, thread)
        quads, octs = count(quad), count(thread[4][2])
        with each(oct, out) as o:
            s: int @ oct = of_eight(t)
            with each(thread, out):
                out[0, t] = 1000 * quads + q
                out[1, t] = 1000 * octs + o
                out[2, t] = s
        with claim(out, p=quad[4]) as rows:
            match split(quad):
                case 4:
                    with each(quad[pairs], rows) as k, each(thread, rows):
                        rows[3, t] = k + 1


def check():
    out = np.zeros((4, 64), np.int32)
    levels[1](out)
    t = np.arange(64)
    sums = t.reshape(8, 8).sum(1).repeat(8)
    np.testing.assert_array_equal(out, [16000 + t // 4, 8000 + t // 8, sums, np.where(t < 16, t // 8 + 1, 0)])
