"""One device function on global and on shared memory, const pointers read up, others exactly."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(thread[32])
def copy_reversed(src: ptr(const(int)) @ thread[32], dst: ptr(int) @ thread[32], at: int @ thread[32]):
    l: int @ thread[1] = id()
    with partition(dst, p=thread[1], offset=l) as mine:
        mine[0] = src[at + 31 - l]


@kernel
@requires(grid[1], block[1], thread[64])
def twice(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        g: int @ warp = id()
        with partition(out, p=warp, offset=32 * g) as out_warp:
            with group(block[1]):
                s: shared(int[2, 32])
                w: int @ warp = id()
                with partition(s, p=warp, f=lambda k: (w, k)) as row:
                    with group(warp):
                        copy_reversed(x, row, 32 * g)
                        copy_reversed(row, out_warp, 0)


def check():
    x = np.arange(256, dtype=np.int32) ** 2
    out = np.zeros_like(x)
    twice[4](x, out)
    np.testing.assert_array_equal(out, x)
