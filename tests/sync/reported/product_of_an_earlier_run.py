from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def k(x: ptr(const(bf16), (64, 64)) @ grid[1], y: ptr(float, (64, 128)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j), disjoint=True) as yb:
            with group(block[1]):
                S: shared(bf16[64, 64], swizzle=128)
                t: int @ thread[1] = id()
                acc: float[32] @ thread[1]
                async_copy(S, x, at=(0, 0))
                with claim(S, p=thread[128]) as s:
                    match split(thread, 128, 128):
                        case 0:
                            wgmma(acc, s, s, zero=True)
                        case 1:
                            pass
                z: int @ block[1] = intrinsic.syncthreads_count(t < 7)
                with partition(yb, p=thread[1], f=lambda i: (i, t)) as c:
                    for q in range(n):
                        match split(thread, 128, 128):
                            case 0:
                                c[q] = acc[0] + acc[31]
                            case 1:
                                pass


def arguments():
    return ((np.random.default_rng(0).integers(-3, 4, (64, 64)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), np.zeros((64, 128), np.float32), 4,)
