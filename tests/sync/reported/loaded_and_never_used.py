from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(float), (M, 128)) @ grid[1], y: ptr(float) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yb:
            with group(block[1]):
                rows: pipeline(shared(float[16, 128]), 2)
                t: int @ thread[1] = id()
                acc: float @ thread[1] = 0.0
                for k in range(9):
                    if k < 8:
                        with stage(rows, k) as s:
                            async_copy(s, x, at=(16 * k, 0))
                    if k < 5:
                        with stage(rows, k) as s:
                            for i in range(16):
                                acc += s[i, t]
                with partition(yb, p=thread[1], f=lambda i: t) as c:
                    c[0] = acc


def arguments():
    return (np.random.default_rng(0).integers(0, 9, (128, 128)).astype(np.float32), np.zeros((128,), np.float32), 128,)
