from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(block[1], thread[64])
def ld(x: ptr(const(int), (M, 32)) @ block[1], M: int @ block[1], v: int @ thread[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    b: shared(int[4, 32])
    async_copy(b, x, at=(0, 0))
    return v + b[t % 4, t % 32]

@kernel
@requires(grid[1], block[1], thread[64])
def k(x: ptr(const(int), (M, 32)) @ grid[1], y: ptr(int, (M, 32)) @ grid[1], z: ptr(int) @ grid[1], M: int @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j)) as yb, partition(z, p=block[1], f=lambda i: i) as zb:
            with group(block[1]):
                t: int @ thread[1] = id()
                acc: int @ thread[1] = t
                acc = ld(x, M, acc)
                acc = ld(x, M, acc)
                with partition(zb, p=thread[1], f=lambda i: t) as cell:
                    cell[0] = acc


def arguments():
    return np.arange(64 * 32, dtype=np.int32).reshape(64, 32) % 97, np.zeros((64, 32), np.int32), np.zeros(64, np.int32), 64, 3
