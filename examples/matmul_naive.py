"""C = A * B, one thread an element, everything from global memory.

Shaped pointers: `ptr(const(float), (M, K))` is indexed `a[i, j]`, and the launch refuses arrays of another shape.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def matmul_naive(
    a: ptr(const(float), (M, K)) @ grid[1],
    b: ptr(const(float), (K, N)) @ grid[1],
    c: ptr(float, (M, N)) @ grid[1],
    M: int @ grid[1],
    N: int @ grid[1],
    K: int @ grid[1],
):
    with group(grid[1]):
        row: int @ thread[1] = id() / max(N, 1)
        col: int @ thread[1] = id() % max(N, 1)
        with partition(c, p=thread[1], f=lambda k: (row, col + k)) as mine:
            with group(thread[1]):
                if row < M and col < N:
                    acc: float = 0.0
                    for k in range(K):
                        acc += a[row, k] * b[k, col]
                    mine[0] = acc


def main():
    rng = np.random.default_rng(0)
    for m, n, k in ((1, 1, 1), (16, 32, 8), (17, 13, 31), (5, 3, 0)):
        a = rng.standard_normal((m, k), dtype=np.float32)
        b = rng.standard_normal((k, n), dtype=np.float32)
        compare(f"matmul_naive, {m} x {n} x {k}", matmul_naive, blocks_for(m * n, 256), [a, b, np.zeros((m, n), np.float32), m, n, k],
                {2: a.astype(np.float64) @ b}, atol=1e-4)


if __name__ == "__main__":
    main()
