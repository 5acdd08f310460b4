from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[96])
def k(x: ptr(const(float), (M, 32)) @ grid[1], y: ptr(float) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                with partition(yb, p=thread[1], f=lambda i: i + t) as mine:
                    for k in range(M):
                        if k % 2 == 0:
                            row: shared(float[1, 32])
                            with claim(row, p=thread[32]) as fill:
                                match split(thread, 64, 32):
                                    case 0:
                                        pass
                                    case 1:
                                        async_copy(fill, x, at=(k, 0))
                            with claim(row, p=thread[64]) as use:
                                match split(thread, 64, 32):
                                    case 0:
                                        mine[0] = use[0, t % 32]
                                    case 1:
                                        pass
                        else:
                            other: shared(float[96])
                            with partition(other, p=thread[1], f=lambda i: i + t) as cell:
                                cell[0] = 1.0
                            mine[0] = other[95 - t]


def arguments():
    return np.arange(5 * 32, dtype=np.float32).reshape(5, 32), np.zeros(96, np.float32), 5
