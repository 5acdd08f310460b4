"""The two kernels in Warp."""

import warp as wp


@wp.kernel
def matmul(a: wp.array2d(dtype=wp.float32), b: wp.array2d(dtype=wp.float32), c: wp.array2d(dtype=wp.float32), n: int):
    i = wp.tid()
    row = i // n
    col = i % n
    acc = wp.float32(0.0)
    for k in range(n):
        acc += a[row, k] * b[k, col]
    c[row, col] = acc


@wp.kernel
def add(a: wp.array(dtype=wp.float32), b: wp.array(dtype=wp.float32), c: wp.array(dtype=wp.float32), n: int):
    i = wp.tid()
    c[i] = a[i] + b[i]
