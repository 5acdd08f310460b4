"""Functions that only compute, called by threads, by blocks and by the grid: what they give is as uniform as what they are given."""

from __future__ import annotations

import numpy as np

from snap import *

STEPS = np.array([3, 1, 2], np.int32)


@device(thread)
def cdiv(a: int, b: int) -> int:
    return (a + b - 1) // b


@device(thread)
def steps(n: int) -> int:
    """The sum of n steps, and at most 20."""
    total = 0
    for i in range(n):
        if total >= 20:
            return 20
        total += STEPS[i % 3]
    return min(total, 20)


@kernel(threads=64, where=lambda blocks, n, out: (0 <= n <= 4096, len(out) >= 64 * blocks, blocks <= 1024))
def counts(out: ptr(int), n: int):
    parts = cdiv(n, 64)
    with each(block, out) as b:
        s: shared(int[64])
        total: int @ thread[1] = 0
        for k in range(cdiv(n, cdiv(n, 7) + 1)):
            with each(thread, s) as t:
                s[t] = t + k
            if steps(k + b) > 6:
                total += s[63 - cdiv(k, 2)]
        with each(thread, out) as t:
            out[64 * b + t] = 10000 * parts + 10 * total + cdiv(t, 8)


def check():
    out = np.zeros(128, np.int32)
    counts[2](out, 200)
    n, cdiv = 200, lambda a, b: -(-a // b)
    want = []
    for b in range(2):
        taken = [k for k in range(cdiv(n, cdiv(n, 7) + 1)) if min(sum((3, 1, 2)[i % 3] for i in range(k + b)), 20) > 6]
        total = sum(63 - cdiv(k, 2) + k for k in taken)
        want += [10000 * cdiv(n, 64) + 10 * total + cdiv(t, 8) for t in range(64)]
    np.testing.assert_array_equal(out, want)
