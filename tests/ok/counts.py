"""`id()` and `count()` at every level, and in a grid-stride loop."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[64], where=lambda T, blocks: T >= 64 * blocks)
def numbers(out: ptr(int, (7, T)) @ grid[1], T: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        w: int @ warp = id()
        blocks, warps = count(block[1]), count(warp)
        with partition(out, p=thread[1], f=lambda k: (k, i)) as mine:
            mine[0] = i
            mine[1] = b
            mine[2] = w
            mine[3] = 1000 * blocks + warps
            with group(block[1]):
                of_block: int @ warp = id()
                mine[4] = of_block
                with group(thread[16]):
                    n: int = count(thread[1])
                    t: int @ thread[1] = id()
                    q: int @ thread[4] = id()
                    mine[5] = 100 * n + t
                    mine[6] = q


@kernel
@requires(grid[1], block[1], thread[32], where=lambda blocks, n, out: (len(out) >= n, 32 * blocks + n <= 2**31))
def strided(out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        step: int = count(thread[1])
        with partition(out, p=thread[1], f=lambda k: k) as mine, group(thread[1]):
            for j in range(i, n, step):
                mine[j] = j * j


def check():
    out = np.zeros((7, 192), np.int32)
    numbers[3](out, 192)
    i = np.arange(192)
    right = [i, i // 64, i // 32, np.full(192, 3006), i // 32 % 2, 1600 + i % 16, i % 16 // 4]
    np.testing.assert_array_equal(out, right)
    for n in (0, 1, 1009):
        y = np.zeros(n, np.int32)
        strided[3](y, n)
        np.testing.assert_array_equal(y, np.arange(n) ** 2)
