"""Shared memory whose size a launch decides: a row of any length that fits, and a table beside it.  What a launch gives a
block follows from its arguments; which barriers there are does not.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, where=lambda rows, bins, blocks: (rows >= blocks, 1 <= bins <= 256))
def reversed_rows(x: ptr(const(float), (rows, n)), out: ptr(float, (rows, n)), rows: int, n: int, bins: u32):
    with each(block, out) as b:
        row: shared(float[n], upto=20000)
        counts: shared(int[max(bins, 1), 2], upto=256)
        total: shared(float[2])
        with each(thread, row) as t:
            for k in range(t, n, 64):
                row[k] = x[b, k]
        with each(thread, counts) as t:
            for k in range(t, int(bins), 64):
                counts[k, 0] = 0
                counts[k, 1] = k
        with each(thread) as t:
            for k in range(t, n, 64):
                atomic.add(counts, abs(int(row[k]) % int(bins)), 0, 1)
        with one(thread, total):
            total[0] = float(counts[0, 0])
            total[1] = float(counts[int(bins) - 1, 1])
        with each(thread, out) as t:
            for k in range(t, n, 64):
                out[b, k] = row[n - 1 - k] + total[0] + total[1]


@device(block[1], thread[64])
def sum_of(s: ptr(shared(float)), n: int) -> float:
    v: float @ thread[1] = 0.0
    for k in range(n):
        v += s[k]
    return intrinsic.broadcast(v)


@kernel(threads=64, where=lambda blocks, n, out, x: (len(x) >= 4 * n >= 0, n <= 2**28, len(out) >= 2 * blocks, blocks <= 2**30))
def handed_on(x: ptr(const(float)), out: ptr(float), n: int):
    """A function is handed such memory; views of it end where it does."""
    with each(block, out) as b:
        for turn in range(2):
            s: shared(float[4 * n], upto=4096)
            with each(thread, s.view(float4)) as t:
                for k in range(t, n, 64):
                    s[k] = float4(x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3])
            total: float = sum_of(s, 4 * n)
            with one(thread, out):
                out[2 * b + turn] = total + float(turn)


def check():
    rng = np.random.default_rng(4)
    for n in (1, 64, 1000, 13000):  # 52,000 bytes are more than a kernel has without asking for it
        x = rng.integers(-9, 9, (3, n)).astype(np.float32)
        out = np.zeros_like(x)
        reversed_rows[3](x, out, 3, n, 10)
        zeros = (np.abs(x.astype(int)) % 10 == 0).sum(axis=1)
        np.testing.assert_array_equal(out, x[:, ::-1] + zeros[:, None] + 9)
    x = rng.integers(-9, 9, 400).astype(np.float32)
    out = np.zeros(4, np.float32)
    handed_on[2](x, out, 100)
    np.testing.assert_array_equal(out, [x.sum(), x.sum() + 1] * 2)
