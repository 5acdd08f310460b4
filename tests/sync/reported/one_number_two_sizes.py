from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def k(x: ptr(const(int), (M, 32)) @ grid[1], y: ptr(int, (M, 32)) @ grid[1], z: ptr(int) @ grid[1], M: int @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j)) as yb, partition(z, p=block[1], f=lambda i: i) as zb:
            with group(block[1]):
                t: int @ thread[1] = id()
                acc: int @ thread[1] = t * 13 % 101
                P0: shared(int[256])
                Q1: pipeline(shared(int[4, 32]), 1)
                with partition(P0, p=thread[1], offset=t) as w0:
                    w0[0] = t + 0
                match split(thread, 128, 64, 64):
                    case 0:
                        acc = (acc * 3 + P0[(t * 7 + 0) % 256]) % 10007
                    case 1:
                        pass
                    case 2:
                        pass
                acc += intrinsic.syncthreads_count(acc % 3 == 1)
                with stage(Q1) as s7:
                    with claim(s7, p=thread[128]) as m7:
                        match split(thread, 128, 64, 64):
                            case 0:
                                l8: int @ thread[1] = id()
                                with partition(m7, p=thread[1], f=lambda i: ((l8 + i * 128) / 32, (l8 + i * 128) % 32)) as c8:
                                    for i in range(1):
                                        c8[i] = (acc + i * 7 + 83) % 1000
                            case 1:
                                pass
                            case 2:
                                pass
                    with claim(s7, p=thread[128]) as u10:
                        match split(thread, 128, 64, 64):
                            case 0:
                                acc = (acc * 3 + u10[1, (t * 5 + 24) % 32]) % 10007
                            case 1:
                                pass
                            case 2:
                                pass


def arguments():
    return (np.zeros((64, 32), np.int32), np.zeros((64, 32), np.int32), np.zeros(256, np.int32), 64, 4,)
