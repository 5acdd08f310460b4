from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def k(x: ptr(const(float), (M, 128)) @ grid[1], sums: ptr(float) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(sums, p=block[1], f=lambda i: i) as out:
            with group(block[1]):
                t: int @ thread[1] = id()
                acc: float @ thread[1] = 0.0
                rows: pipeline(shared(float[16, 128]), 2)
                for k in range(M / 16):
                    with stage(rows) as s:
                        with claim(s, p=thread[64]) as mine:
                            match split(thread, 128, 64, 64):
                                case 0:
                                    pass
                                case 1:
                                    pass
                                case 2:
                                    async_copy(mine, x, at=(16 * k, 0))
                        with claim(s, p=thread[64]) as mid:
                            match split(thread, 128, 64, 64):
                                case 0:
                                    pass
                                case 1:

                                    l: int @ thread[1] = id()
                                    with partition(mid, p=thread[1], f=lambda i, h: (i, l + 64 * h)) as c:
                                        for i in range(16):
                                            for h in range(2):
                                                c[i, h] = c[i, h] * 2.0

                                case 2:
                                    pass
                        with claim(s, p=thread[128]) as ours:
                            match split(thread, 128, 64, 64):
                                case 0:
                                    for i in range(16):
                                        acc += ours[i, t]
                                case 1:
                                    pass
                                case 2:
                                    pass
                with partition(out, p=thread[1], f=lambda i: t) as cell:
                    match split(thread, 128):
                        case 0:
                            cell[0] = acc


def arguments():
    return (np.random.default_rng(0).integers(0, 9, (192, 128)).astype(np.float32), np.zeros((128,), np.float32), 192,)
