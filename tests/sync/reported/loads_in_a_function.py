from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(block[1], thread[160])
def step(x: ptr(const(float), (M, 128)) @ block[1], M: int @ block[1], n: int @ block[1]) -> float @ thread[1]:
    R: shared(float[16, 128])
    t: int @ thread[1] = id()
    acc: float @ thread[1] = 0.0
    for j in range(n):
        async_copy(R, x, at=(0, 0))
        acc += R[3, t % 128]
    return acc

@kernel
@requires(grid[1], block[1], thread[160])
def k(x: ptr(const(float), (M, 128)) @ grid[1], y: ptr(float, (M, 128)) @ grid[1], M: int @ grid[1]):
    pass
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j), disjoint=True) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                acc: float @ thread[1] = 0.0
                acc += step(x, M, 3)

                with partition(yb, p=thread[1], f=lambda i: (i, t)) as c:
                    match split(thread, 128):
                        case 0:
                            c[0] = acc


def arguments():
    return (np.random.default_rng(0).integers(0, 9, (128, 128)).astype(np.float32), np.zeros((128, 128), np.float32), 128,)
