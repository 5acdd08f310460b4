"""A block of 8 x 16 threads: its columns, its squares, and pairs of threads of both."""

from __future__ import annotations

import numpy as np

from snap import *

ROWS, COLUMNS = 8, 16
column = thread.every(COLUMNS)[ROWS]  # threads j, j + 16, j + 32, ...
square = thread[4].every(COLUMNS // 4)[4]  # 4 x 4 threads: 4 neighbors in each of 4 rows


@kernel(threads=ROWS * COLUMNS, where=lambda blocks, x, y: (len(x) >= 128 * blocks, len(y) >= 128 * blocks, blocks <= 2**24))
def tilted(x: ptr(const(int)), y: ptr(int)):
    """Each column is turned by its own number, then each row; a block waits between the two."""
    with each(block, y) as b:
        s: shared(int[ROWS, COLUMNS])
        with each(column, s) as j:
            turned: int = j % ROWS
            with each(thread, s) as i:
                s[(i + turned) % ROWS, j] = x[128 * b + COLUMNS * i + j]
        with each(thread[COLUMNS], s, y) as i:
            with each(thread, y) as j:
                y[128 * b + COLUMNS * i + j] = s[i, (i + j) % COLUMNS]


@kernel(threads=ROWS * COLUMNS, where=lambda blocks, y: (len(y) >= 128 * blocks, blocks <= 2**24))
def numbered(y: ptr(int)):
    """A thread's numbers: of its square, in it, and of the pair of rows of the square."""
    with each(block, y) as b:
        t: int @ thread[1] = id()
        with each(square, y) as q:
            squares: int = 100 * q + 10000 * count(thread)
            with each(thread.every(COLUMNS)[2], y) as k, each(thread, y) as half:
                y[128 * b + t] = squares + 10 * k + half


@kernel(threads=ROWS * COLUMNS, where=lambda y: len(y) >= 128, blocks=1)
def halves(y: ptr(int)):
    """The halves of each column do different things: a case takes the next rows."""
    t: int @ thread[1] = id()
    with partition(y, p=column) as mine, group(column):
        i: int @ thread[1] = id()
        with claim(mine, p=thread.every(COLUMNS)[4]) as upper:
            match split(thread):
                case 4:
                    with each(thread.every(2 * COLUMNS)[2], upper) as k, each(thread, upper):
                        upper[t] = 10 * i + k
                case _:
                    pass


def check():
    x = np.random.default_rng(0).integers(-50, 50, 256).astype(np.int32)
    y = np.zeros_like(x)
    tilted[2](x, y)
    i, j = np.arange(ROWS)[:, None], np.arange(COLUMNS)
    tiles = x.reshape(2, ROWS, COLUMNS)
    s = tiles[:, (i - j % ROWS) % ROWS, j]
    np.testing.assert_array_equal(y.reshape(tiles.shape), s[:, i, (i + j) % COLUMNS])

    numbered[2](y)
    q, row, col = i // 4 * 4 + j // 4, i % 4, j % 4
    member = 4 * row + col  # of the 16 in a square
    want = 160000 + 100 * q + 10 * (member // 8 * 4 + member % 4) + member % 8 // 4
    np.testing.assert_array_equal(y.reshape(2, ROWS, COLUMNS), np.stack([want, want]))

    y[:] = -1
    halves(y)
    np.testing.assert_array_equal(y[:128].reshape(ROWS, COLUMNS), np.where(i < 4, 10 * i + i % 2, -1) + 0 * j)
