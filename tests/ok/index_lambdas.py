"""Index functions: local names, captured module lambdas, several parameters for one index, one parameter for several."""

from __future__ import annotations

import numpy as np

from snap import *

spread = lambda k: 2 * k


@kernel
@requires(grid[1], block[1], thread[16], where=lambda blocks, even, flat: (len(flat) >= 16 * blocks, blocks <= 1, len(even) + 1 >= 32 * blocks))
def scatter(flat: ptr(int) @ grid[1], square: ptr(int, (4, 4)) @ grid[1], even: ptr(int) @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        place = lambda row, col: (t / 4 + row) * 4 + t % 4 + col
        with partition(flat, p=thread[1], f=place) as mine:
            mine[0, 0] = t
        with partition(square, p=thread[1], f=lambda k: (t % 4, t / 4 + k)) as mine:
            mine[0] = t
        with partition(even, p=block[1], f=spread) as evens, partition(evens, p=thread[1], offset=t) as mine:
            mine[0] = t


def check():
    flat, square, even = np.zeros(16, np.int32), np.zeros((4, 4), np.int32), np.full(32, -1, np.int32)
    scatter[1](flat, square, even)
    np.testing.assert_array_equal(flat, np.arange(16))
    np.testing.assert_array_equal(square, np.arange(16).reshape(4, 4).T)
    np.testing.assert_array_equal(even[0::2], np.arange(16))
    np.testing.assert_array_equal(even[1::2], -1)
