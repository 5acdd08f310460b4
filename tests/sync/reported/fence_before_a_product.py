from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(bf16), (64, 64)) @ grid[1], y: ptr(float, (64, 128)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j), disjoint=True) as yb:
            with group(block[1]):
                S: shared(bf16[64, 64], swizzle=128)
                t: int @ thread[1] = id()
                z: float @ thread[1] = 0.0
                acc: float[32] @ thread[1]
                with partition(S, p=thread[1], f=lambda i: (i, t % 64)) as c:
                    with group(thread[1]):
                        if t < 64:
                            for i in range(64):
                                c[i] = x[i, t]
                z = float(S[t % 64, 3])
                wgmma(acc, S, S, zero=True)
                with partition(yb, p=thread[1], f=lambda i: (i, t)) as c:
                    c[0] = acc[0] + acc[31] + z


def arguments():
    return ((np.random.default_rng(0).integers(-3, 4, (64, 64)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), np.zeros((64, 128), np.float32), 4,)
