"""`case _` takes what is left, as groups of the largest aligned size, of threads and of blocks."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[96], where=lambda blocks, out: len(out) >= 96 * blocks)
def threads(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, group(block[1]):
            match split(thread):
                case 32:
                    mine[0] = 0
                case _:  # 64 threads from thread 32 on: two warps
                    n: int = count(thread[1])
                    lane: int @ thread[1] = id()
                    mine[0] = 100 * n + lane


@kernel
@requires(grid[1], block[1], thread[32], where=lambda blocks, out: (len(out) >= 32, len(out) >= 32 * blocks))
def blocks(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            match split(block):
                case 1:
                    mine[0] = 7
                case _:
                    mine[0] = 8


def check():
    out = np.full(96, -1, np.int32)
    threads[1](out)
    np.testing.assert_array_equal(out, np.concatenate([np.zeros(32), 3200 + np.arange(32), 3200 + np.arange(32)]))
    for n in (1, 3):
        out = np.full(32 * n, -1, np.int32)
        blocks[n](out)
        np.testing.assert_array_equal(out, np.where(np.arange(32 * n) < 32, 7, 8))
