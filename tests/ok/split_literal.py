"""`match split(thread)` with literal sizes: branches run side by side, threads beyond the last case skip the statement."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[128], where=lambda blocks, out: len(out) + 32 >= 128 * blocks)
def roles(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, group(block[1]):
            match split(thread):
                case 64:
                    t: int @ thread[1] = id()  # relative to the branch
                    mine[0] = 1000 + t
                case 32:
                    t: int @ thread[1] = id()
                    mine[0] = 2000 + t


def check():
    out = np.full(2 * 128, -1, np.int32)
    roles[2](out)
    one = np.concatenate([1000 + np.arange(64), 2000 + np.arange(32), np.full(32, -1)])
    np.testing.assert_array_equal(out, np.tile(one, 2))
