"""The way to a fast product of f32 matrices, one step at a time: the first four rungs.  The fifth is the library's own (sgemm.py).

Input:      factories: sizes of tiles.  A kernel takes A of M x K, B of K x N, C of M x N, and those three numbers
Output:     kernels that write C = A @ B, and `LADDER`: for each rung its kernel and the number of blocks it is launched with
Invariant:  any extents; all rungs add the products of an element in the order of k
Non-goals:  speed: each rung leaves out what the next one is there to show
"""

from __future__ import annotations

import functools

from snap import *

ZERO4 = (0.0, 0.0, 0.0, 0.0)


@functools.cache
def naive(T=256):
    """A thread for each element.  Neighbouring threads have neighbouring rows: each reads another line of memory, and writes another one."""

    @kernel
    @requires(grid[1], block[1], thread[T])
    def sgemm(A: ptr(const(float), (M, K)) @ grid[1], B: ptr(const(float), (K, N)) @ grid[1], C: ptr(float, (M, N)) @ grid[1],
              M: int @ grid[1], N: int @ grid[1], K: int @ grid[1]):
        with group(grid[1]):
            t: int @ thread[1] = id()
            with partition(C, p=thread[1], f=lambda: (t % M, t / M)) as mine:
                with group(thread[1]):
                    if t / M < N:
                        sum: float = 0.0
                        for k in range(K):
                            sum += A[t % M, k] * B[k, t / M]
                        mine[()] = sum

    return sgemm
