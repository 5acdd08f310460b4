"""The two kernels in numba-cuda."""

import numpy as np
from numba import cuda


@cuda.jit
def matmul(a, b, c, n):
    i = cuda.grid(1)
    if i < n * n:
        row, col = i // n, i % n
        acc = np.float32(0.0)
        for k in range(n):
            acc += a[row, k] * b[k, col]
        c[row, col] = acc


@cuda.jit
def add(a, b, c, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i] + b[i]
