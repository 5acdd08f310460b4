"""Softmax of each row, one warp per row, in three passes over the row: maximum, sum of exponentials, quotient.

`intrinsic.reduce_max` takes a value from every lane and returns one for the warp.  That is the checked way up: from data that
differs (thread[1]) to data all lanes agree on (thread[32]).
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

WARPS = 4


@kernel(threads=32 * WARPS, where=lambda N, blocks: (blocks <= 2**28, N <= 2**30))
def softmax(x: ptr(const(float), (M, N)), y: ptr(float, (M, N)), M: int, N: int):
    with each(warp) as row:
        if row < M:
            largest: float @ thread[1] = -3.402823466e38
            with each(thread) as lane:
                for j in range(lane, N, 32):
                    largest = max(largest, x[row, j])
            top: float = intrinsic.reduce_max(largest)  # no `@`: declared at the code's privilege, thread[32]

            part: float @ thread[1] = 0.0
            with each(thread) as lane:
                for j in range(lane, N, 32):
                    part += exp(x[row, j] - top)
            total: float = intrinsic.reduce_add(part)

            with each(thread, y) as lane:
                for j in range(lane, N, 32):
                    y[row, j] = exp(x[row, j] - top) / total


def expected(x):
    if x.size == 0:
        return x
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main():
    rng = np.random.default_rng(0)
    for m, n in ((1, 1), (3, 0), (4, 32), (13, 101)):
        x = 4 * rng.standard_normal((m, n), dtype=np.float32)
        compare(f"softmax, {m} x {n}", softmax, blocks_for(m, WARPS), [x, np.zeros_like(x), m, n], {1: expected(x)}, rtol=1e-5, atol=1e-7)


if __name__ == "__main__":
    main()
