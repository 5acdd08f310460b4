"""The four shuffles, with their width, on 32-bit, 64-bit and 16-bit values; a uniform source lane gives a warp's value."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda blocks, narrow, wide: (blocks <= 1, len(wide) >= 32 * blocks, len(narrow) >= 32 * blocks))
def shuffle(out: ptr(int, (6, 32)), wide: ptr(f64), narrow: ptr(f16)):
    i: int @ thread[1] = id()
    with partition(out, p=thread[1], f=lambda k: (k, i)) as mine, partition(wide, p=thread[1], offset=i) as w, partition(narrow, p=thread[1], offset=i) as n, each(warp):
        v: int @ thread[1] = 100 + i
        mine[0] = intrinsic.shfl(v, i * 7 % 32)
        mine[1] = intrinsic.shfl_up(v, 3)
        mine[2] = intrinsic.shfl_down(v, 5)
        mine[3] = intrinsic.shfl_xor(v, 9)
        mine[4] = intrinsic.shfl_down(v, 1, width=8)
        of_lane_4: int = intrinsic.shfl(v, 4)
        mine[5] = of_lane_4
        w[0] = intrinsic.shfl_xor(f64(i) / 3.0, 1)
        n[0] = intrinsic.shfl_up(f16(i), 1)


def check():
    out, wide, narrow = np.zeros((6, 32), np.int32), np.zeros(32), np.zeros(32, np.float16)
    shuffle[1](out, wide, narrow)
    l = np.arange(32)
    np.testing.assert_array_equal(out[0], 100 + l * 7 % 32)
    np.testing.assert_array_equal(out[1], 100 + np.where(l < 3, l, l - 3))
    np.testing.assert_array_equal(out[2], 100 + np.where(l > 26, l, l + 5))
    np.testing.assert_array_equal(out[3], 100 + (l ^ 9))
    np.testing.assert_array_equal(out[4], 100 + np.where(l % 8 == 7, l, l + 1))
    np.testing.assert_array_equal(out[5], 104)
    np.testing.assert_array_equal(wide, (l ^ 1) / 3.0)
    np.testing.assert_array_equal(narrow, np.maximum(l - 1, 0))
