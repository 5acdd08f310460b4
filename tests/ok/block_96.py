"""Blocks of 96 threads: a shared array filled, read across the block, summed."""

from __future__ import annotations

import numpy as np

from snap import *

T = 96


@kernel(threads=T, where=lambda blocks, n, out, total, x: (len(x) >= n, len(out) >= n, len(total) >= blocks, blocks <= 2**24))
def rotate(x: ptr(const(int)), out: ptr(int), total: ptr(int), n: int):
    with each(block) as b:
        s: shared(int[T])
        with each(thread, s) as t:
            s[t] = x[b * T + t] if b * T + t < n else 0
        with each(thread, out) as t:
            if b * T + t < n:
                out[b * T + t] = s[(t + 1) % T]
        with one(thread, total):
            sum: int = 0
            for k in range(T):
                sum += s[k]
            total[b] = sum


def check():
    n = 2 * T + 1
    x = np.arange(1, n + 1, dtype=np.int32)
    out, total = np.zeros(n, np.int32), np.zeros(3, np.int32)
    rotate[3](x, out, total, n)
    padded = np.zeros(3 * T, np.int32)
    padded[:n] = x
    np.testing.assert_array_equal(out, np.roll(padded.reshape(3, T), -1, axis=1).reshape(-1)[:n])
    np.testing.assert_array_equal(total, padded.reshape(3, T).sum(axis=1))
