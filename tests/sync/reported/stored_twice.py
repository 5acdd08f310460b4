from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(float), (M, 128)) @ grid[1], y: ptr(float, (M, 128)) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j)) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                acc: float @ thread[1] = 0.0

                A: shared(float[4, 128])
                B: shared(float[4, 128])
                with partition(A, p=thread[1], f=lambda i: (i, t)) as c:
                    for i in range(4):
                        c[i] = 1.0
                with partition(B, p=thread[1], f=lambda i: (i, t)) as c:
                    for i in range(4):
                        c[i] = 2.0

                async_copy(yb, A, at=(0, 0))
                async_copy(yb, B, at=(0, 0))


def arguments():
    return (np.random.default_rng(0).integers(0, 9, (128, 128)).astype(np.float32), np.zeros((128, 128), np.float32), 128,)
