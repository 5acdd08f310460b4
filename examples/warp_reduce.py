"""Sum of each row of a matrix, one warp per row, by shuffles: no shared memory, no barrier.

A shuffle is a collective: it is only defined when all 32 lanes execute it.  `@requires(thread[32])` is that rule, checked at every call.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

WARPS = 4


@device(warp)
def warp_sum(v: float @ thread[1]) -> float:
    for step in range(5):
        v += intrinsic.shfl_xor(v, 16 >> step)
    # After the butterfly all lanes hold the sum.  The type of a shuffle from one lane says so: its result is the warp's.
    return intrinsic.shfl(v, 0)


@kernel(threads=32 * WARPS, where=lambda out, M, N, blocks: (len(out) >= M, blocks <= 2**28, N <= 2**30))
def row_sums(a: ptr(const(float), (M, N)), out: ptr(float), M: int, N: int):
    with each(warp) as row:  # index of this warp in the grid
        if row < M:  # the same for all 32 lanes: a warp may decide it
            v: float @ thread[1] = 0.0
            with each(thread) as lane:
                for j in range(lane, N, 32):
                    v += a[row, j]
            total: float = warp_sum(v)
            with one(thread, out):
                out[row] = total


def main():
    rng = np.random.default_rng(0)
    for m, n in ((1, 1), (5, 0), (7, 31), (13, 257)):
        a = rng.standard_normal((m, n), dtype=np.float32)
        compare(f"warp_reduce, {m} x {n}", row_sums, blocks_for(m, WARPS), [a, np.zeros(m, np.float32), m, n],
                {1: a.astype(np.float64).sum(axis=1)}, atol=1e-4)


if __name__ == "__main__":
    main()
