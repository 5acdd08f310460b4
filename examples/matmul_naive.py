"""C = A * B, one thread per element, everything from global memory.

Shaped pointers: `ptr(const(float), (M, K))` is indexed `a[i, j]`, and the launch rejects arrays of another shape.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *


@kernel(threads=256, where=lambda M, N, blocks: (M * N < 2**31, blocks <= 2**23))
def matmul_naive(a: ptr(const(float), (M, K)), b: ptr(const(float), (K, N)), c: ptr(float, (M, N)), M: int, N: int, K: int):
    with each(thread, c, shape=(M, N)) as (row, col):
        acc: float = 0.0
        for k in range(K):
            acc += a[row, k] * b[k, col]
        c[row, col] = acc


def main():
    rng = np.random.default_rng(0)
    for m, n, k in ((1, 1, 1), (16, 32, 8), (17, 13, 31), (5, 3, 0)):
        a = rng.standard_normal((m, k), dtype=np.float32)
        b = rng.standard_normal((k, n), dtype=np.float32)
        compare(f"matmul_naive, {m} x {n} x {k}", matmul_naive, blocks_for(m * n, 256), [a, b, np.zeros((m, n), np.float32), m, n, k],
                {2: a.astype(np.float64) @ b}, atol=1e-4)


if __name__ == "__main__":
    main()
