"""Partitions nest: grid to block to warp to thread, the index functions composed."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[64], where=lambda B, blocks: B >= blocks)
def stamp(out: ptr(int, (B, 2, 32)) @ grid[1], B: int @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(out, p=block[1], f=lambda w, l: (b, w, l)) as of_block, group(block[1]):
            w: int @ warp = id()
            with partition(of_block, p=warp, f=lambda l: (w, l)) as of_warp, group(warp):
                l: int @ thread[1] = id()
                with partition(of_warp, p=thread[1], f=lambda k: 31 - l - k) as mine:
                    mine[0] = b * 10000 + w * 100 + l


def check():
    out = np.zeros((3, 2, 32), np.int32)
    stamp[3](out, 3)
    b, w, l = np.meshgrid(np.arange(3), np.arange(2), np.arange(32), indexing="ij")
    np.testing.assert_array_equal(out, b * 10000 + w * 100 + 31 - l)
