from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[160])
def k(x: ptr(const(float), (M, 128)) @ grid[1], y: ptr(float, (M, 128)) @ grid[1], M: int @ grid[1]):
    pass
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j), disjoint=True) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                acc: float @ thread[1] = 0.0
                if M > 1:
                    rows: pipeline(shared(float[16, 128]), 2)
                    for k in range(M / 16):
                        with stage(rows) as s:
                            with claim(s, p=thread[32]) as m_s:
                                match split(thread, 128, 32):
                                    case 0:
                                        pass
                                    case 1:
                                        async_copy(m_s, x, at=(16 * k, 0))
                            with claim(s, p=thread[128]) as u_s:
                                match split(thread, 128, 32):
                                    case 0:
                                        for i in range(16):
                                            acc += u_s[i, t]
                                    case 1:
                                        pass
                if M > 2:
                    rows: pipeline(shared(float[16, 128]), 2)
                    for k in range(M / 16):
                        with stage(rows) as s:
                            with claim(s, p=thread[32]) as m_s:
                                match split(thread, 128, 32):
                                    case 0:
                                        pass
                                    case 1:
                                        async_copy(m_s, x, at=(16 * k, 0))
                            with claim(s, p=thread[128]) as u_s:
                                match split(thread, 128, 32):
                                    case 0:
                                        for i in range(16):
                                            acc += u_s[i, t]
                                    case 1:
                                        pass

                with partition(yb, p=thread[1], f=lambda i: (i, t)) as c:
                    match split(thread, 128):
                        case 0:
                            c[0] = acc


def arguments():
    return (np.random.default_rng(0).integers(0, 9, (128, 128)).astype(np.float32), np.zeros((128, 128), np.float32), 128,)
