from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(float), (M, 128)) @ grid[1], y: ptr(float) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yb:
            with group(block[1]):
                A: pipeline(shared(float[16, 128]), 4)
                B: pipeline(shared(float[16, 128]), 4)
                t: int @ thread[1] = id()
                acc: float @ thread[1] = 0.0
                for k in range(9):
                    if k < 8:
                        with stage(A, k) as a, stage(B, k) as b:
                            for h in range(2):
                                async_copy(tile(a, (8 * h, 0), (8, 128)), x, at=(16 * k + 8 * h, 0))
                                async_copy(tile(b, (8 * h, 0), (8, 128)), x, at=(16 * k + 8 * h, 0))
                    if k >= 1:
                        with stage(A, k - 1) as a, stage(B, k - 1) as b:
                            for i in range(16):
                                acc += a[i, t] * b[i, t]
                with partition(yb, p=thread[1], f=lambda i: t) as c:
                    c[0] = acc


def arguments():
    return (np.random.default_rng(0).integers(0, 9, (128, 128)).astype(np.float32), np.zeros((128,), np.float32), 128,)
