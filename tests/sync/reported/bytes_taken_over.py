from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def k(x: ptr(const(int), (M, 32)) @ grid[1], y: ptr(int, (M, 32)) @ grid[1], z: ptr(int) @ grid[1], M: int @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j)) as yb, partition(z, p=block[1], f=lambda i: i) as zb:
            with group(block[1]):
                t: int @ thread[1] = id()
                acc: int @ thread[1] = t
                for i in range(n):
                    L: shared(int[4, 32])
                    with partition(L, p=thread[1], f=lambda i: (i * 2 + t / 32, t % 32)) as c:
                        c[0] = t
                        c[1] = t
                    acc += L[0, 31 - t % 32]
                for j in range(n):
                    b: shared(int[4, 32])
                    async_copy(b, x, at=(j, 0))
                    acc += b[0, 31 - t % 32]
                with partition(zb, p=thread[1], f=lambda i: t) as cell:
                    cell[0] = acc


def arguments():
    return np.arange(64 * 32, dtype=np.int32).reshape(64, 32) % 97, np.zeros((64, 32), np.int32), np.zeros(64, np.int32), 64, 3
