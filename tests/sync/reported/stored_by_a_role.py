from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def k(x: ptr(const(float), (M, 128)) @ grid[1], y: ptr(float, (M, 128)) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j), disjoint=True) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                acc: float @ thread[1] = 0.0

                X: pipeline(shared(float[16, 128]), 2)
                Y: pipeline(shared(float[16, 128]), 1)
                for k in range(M / 16):
                    with stage(X) as s:
                        with claim(s, p=thread[128]) as mine:
                            match split(thread, 128, 128):
                                case 0:
                                    pass
                                case 1:
                                    async_copy(mine, x, at=(16 * k, 0))
                        with stage(Y) as o:
                            with claim(s, p=thread[128]) as ours, claim(o, p=thread[128]) as ow:
                                match split(thread, 128, 128):
                                    case 0:
                                        with partition(ow, p=thread[1], f=lambda i: (i, t)) as c:
                                            for i in range(16):
                                                c[i] = ours[i, 127 - t] * 2.0
                                    case 1:
                                        pass
                            with claim(o, p=thread[128]) as os, claim(yb, p=thread[128]) as yg:
                                match split(thread, 128, 128):
                                    case 0:
                                        pass
                                    case 1:
                                        async_copy(yg, os, at=(16 * k, 0))


def arguments():
    return (np.random.default_rng(0).integers(0, 9, (128, 128)).astype(np.float32), np.zeros((128, 128), np.float32), 128,)
