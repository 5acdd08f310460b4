"""Groups of 64 and of 16 threads own shared memory of their own: named barriers and part-warp masks."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[256], where=lambda blocks, out, x: (len(x) >= 256 * blocks, len(out) >= 256 * blocks))
def within(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, group(block[1]):
            s: shared(int[4, 64])
            q: int @ thread[64] = id()
            with partition(s, p=thread[64], f=lambda k: (q, k)) as row, group(thread[64]):
                t: int @ thread[1] = id()
                with partition(row, p=thread[1], offset=t) as cell:
                    cell[0] = x[i]
                mine[0] = row[63 - t]
                # the same memory again, now in pieces of 16
                h: int @ thread[16] = id()
                with partition(row, p=thread[16], f=lambda k: h * 16 + k) as piece, group(thread[16]):
                    u: int @ thread[1] = id()
                    with partition(piece, p=thread[1], offset=u) as cell:
                        cell[0] = 1000 * u
                    mine[0] += piece[15 - u]


def check():
    x = np.arange(512, dtype=np.int32) * 3
    out = np.zeros_like(x)
    within[2](x, out)
    t = np.arange(512)
    np.testing.assert_array_equal(out, x.reshape(-1, 64)[:, ::-1].reshape(-1) + 1000 * (15 - t % 16))
