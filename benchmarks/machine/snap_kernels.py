"""The two kernels in Snap."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def matmul(a: ptr(const(float), (N, N)) @ grid[1], b: ptr(const(float), (N, N)) @ grid[1], c: ptr(float, (N, N)) @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(c, p=thread[1], f=lambda k: (i / N, i % N + k)) as mine:
            with group(thread[1]):
                if i < N * N:
                    acc: float = 0.0
                    for k in range(N):
                        acc += a[i / N, k] * b[k, i % N]
                    mine[0] = acc


@kernel
@requires(grid[1], block[1], thread[256])
def add(a: ptr(const(float)) @ grid[1], b: ptr(const(float)) @ grid[1], c: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(c, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n:
                    mine[0] = a[i] + b[i]
