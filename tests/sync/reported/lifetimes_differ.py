from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[160])
def k(x: ptr(const(float), (M, 128)) @ grid[1], sums: ptr(float) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(sums, p=block[1], f=lambda i: i) as out:
            with group(block[1]):
                t: int @ thread[1] = id()
                acc: float @ thread[1] = 0.0
                A: pipeline(shared(float[16, 128]), 2)
                for j in range(4):
                    B: pipeline(shared(float[16, 128]), 2)
                    for k in range(3):
                        with stage(A) as a, stage(B) as b:
                            with claim(a, p=thread[32]) as ma, claim(b, p=thread[32]) as mb:
                                match split(thread, 128, 32):
                                    case 0:
                                        pass
                                    case 1:
                                        async_copy(ma, x, at=(16 * k, 0))
                                        async_copy(mb, x, at=(16 * j, 0))
                            with claim(a, p=thread[128]) as ua, claim(b, p=thread[128]) as ub:
                                match split(thread, 128, 32):
                                    case 0:
                                        for i in range(16):
                                            acc += ua[i, t] * ub[i, t]
                                    case 1:
                                        pass

                with partition(out, p=thread[1], f=lambda i: t) as cell:
                    match split(thread, 128, 32):
                        case 0:
                            cell[0] = acc
                        case 1:
                            pass


def arguments():
    return (np.random.default_rng(0).integers(0, 9, (192, 128)).astype(np.float32), np.zeros((128,), np.float32), 192,)
