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
                rows: pipeline(shared(float[16, 128]), 2)
                for k in range(M / 16):
                    with stage(rows) as s:
                        with claim(s, p=thread[32]) as mine:
                            match split(thread, 128, 32):
                                case 0:
                                    pass
                                case 1:
                                    async_copy(mine, x, at=(16 * k, 0))
                        with claim(s, p=thread[128]) as ours:
                            match split(thread, 128, 32):
                                case 0:
                                    for i in range(16):
                                        acc += ours[i, t]
                                case 1:
                                    pass

                with stage(rows) as s:
                    pass

                with partition(out, p=thread[1], f=lambda i: t) as cell:
                    match split(thread, 128, 32):
                        case 0:
                            cell[0] = acc
                        case 1:
                            pass


def arguments():
    return (np.random.default_rng(0).integers(0, 9, (192, 128)).astype(np.float32), np.zeros((128,), np.float32), 192,)
