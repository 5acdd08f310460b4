"""Grids of two and three dimensions, whose shape the kernel takes from the launch.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, blocks=lambda M, N: (-(-M // 8), -(-N // 8)), where=lambda blocks: blocks <= 2**27)
def table(out: ptr(int, (M, N)), M: int, N: int):
    with each(block, shape=...) as (bi, bj):
        y, x = ids(thread, shape=(8, 8))
        row: int @ thread[1] = bi * 8 + y
        column: int @ thread[1] = bj * 8 + x
        with each(thread, out):
            if row < M and column < N:
                out[row, column] = 100 * bi + bj


@kernel(threads=32, where=lambda blocks, n: n >= blocks)
def volume(out: ptr(int, (n, 32)), n: int):
    h, i, j = ids(block, shape=...)
    deep: int = count(block, 0)
    b: int @ block[1] = id()
    with each(block), each(thread, out) as t:
        out[b, t] = 10000 * deep + 100 * h + 10 * i + j


@kernel(threads=32, where=lambda blocks, out: len(out) >= 32 * blocks)
def rows(out: ptr(int)):
    """Asks for nothing: however it is launched, blocks have their numbers."""
    with each(thread, out) as i:
        out[i] = i


def check():
    for m, n in ((8, 8), (17, 30), (1, 100), (0, 5)):
        right = np.arange(m)[:, None] // 8 * 100 + np.arange(n) // 8
        out = np.full((m, n), -1, np.int32)
        table(out, m, n)
        np.testing.assert_array_equal(out, right)
        out[:] = -1
        table[-(-m // 8), -(-n // 8)](out, m, n)
        np.testing.assert_array_equal(out, right)
        out[:] = -1
        table.launch(out, m, n, blocks=(-(-m // 8), -(-n // 8)), seed=m)
        np.testing.assert_array_equal(out, right)
    assert not table.races(np.zeros((16, 24), np.int32), 16, 24, blocks=(2, 3), seeds=2)
    out = np.zeros((2 * 3 * 4, 32), np.int32)
    volume[2, 3, 4](out, 24)
    h, i, j = np.unravel_index(np.arange(24), (2, 3, 4))
    np.testing.assert_array_equal(out[:, 7], 20000 + 100 * h + 10 * i + j)
    for grid in (6, (6,), (2, 3), (1, 2, 3), (np.int64(3), np.int64(2))):
        y = np.zeros(192, np.int32)
        rows[grid](y)
        np.testing.assert_array_equal(y, np.arange(192))
