from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def k(order: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            w: int @ warp = id()
            with group(warpgroup):
                with group(warp):
                    l: int @ thread[1] = id()
                    for i in range(n):
                        with turn():
                            with group(thread[1]):
                                if l == 0:
                                    atomic.add(order, w, 1)


def arguments():
    return (np.zeros((8,), np.int32), 5,)
