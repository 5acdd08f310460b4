"""`tile(x, at, shape)`: a window of an object, indexed from its own corner, passed on as an argument."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(thread[32])
def total(t: ptr(const(int), (4, 8)) @ thread[32]) -> int @ thread[32]:
    l: int @ thread[1] = id()
    return intrinsic.reduce_add(t[l / 8, l % 8])


@kernel
@requires(grid[1], block[1], thread[64])
def sums(a: ptr(const(int), (8, 16)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        with partition(out, p=thread[32], offset=0) as cells:
            with group(block[1]):
                s: shared(int[8, 16])
                t: int @ thread[1] = id()
                w: int @ warp = id()
                with partition(s, p=thread[1], f=lambda k: (k, t)) as column:
                    with group(thread[1]):
                        if t < 16:
                            for k in range(8):
                                column[k] = a[k, t]
                with group(warp):
                    near: int = tile(s, (0, 8 * w), (4, 8))[1, 2]
                    v: int = total(tile(s, (4, 8 * w), (4, 8)))
                    with claim(cells, p=thread[1]) as one:
                        match split(thread):
                            case 1:
                                one[2 * w] = v
                                one[2 * w + 1] = near


def check():
    a = np.arange(128, dtype=np.int32).reshape(8, 16)
    out = np.zeros(4, np.int32)
    sums[1](a, out)
    np.testing.assert_array_equal(out, [a[4:, :8].sum(), a[1, 2], a[4:, 8:].sum(), a[1, 10]])
