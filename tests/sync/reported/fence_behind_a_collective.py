from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def k(y: ptr(int, (M, 32)) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j)) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                a: int @ thread[1] = 0
                P: shared(int[64])
                with partition(P, p=thread[1], offset=t) as w:
                    w[0] = t
                a = intrinsic.syncthreads_count(t < 3)
                async_copy(yb, tile(P, (0,), (32,)), at=(0, 0))


def arguments():
    return (np.zeros((64, 32), np.int32), 64,)
