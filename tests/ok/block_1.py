"""Blocks of 1 thread: a shared array filled, read across the block, summed."""

from __future__ import annotations

import numpy as np

from snap import *

T = 1


@kernel
@requires(grid[1], block[1], thread[T], where=lambda blocks, n, out, total, x: (len(x) >= n, len(out) >= n, len(total) >= blocks))
def rotate(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], total: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(total, p=block[1], offset=b) as cell, group(block[1]):
            s: shared(int[T])
            t: int @ thread[1] = id()
            with partition(s, p=thread[1], offset=t) as slot:
                slot[0] = x[i] if i < n else 0
            with group(thread[1]):
                if i < n:
                    mine[0] = s[(t + 1) % T]
            with claim(cell, p=thread[1]) as one:
                match split(thread):
                    case 1:
                        sum: int = 0
                        for k in range(T):
                            sum += s[k]
                        one[0] = sum


def check():
    n = 2 * T + 1
    x = np.arange(1, n + 1, dtype=np.int32)
    out, total = np.zeros(n, np.int32), np.zeros(3, np.int32)
    rotate[3](x, out, total, n)
    padded = np.zeros(3 * T, np.int32)
    padded[:n] = x
    np.testing.assert_array_equal(out, np.roll(padded.reshape(3, T), -1, axis=1).reshape(-1)[:n])
    np.testing.assert_array_equal(total, padded.reshape(3, T).sum(axis=1))
