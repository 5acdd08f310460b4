from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[384])
def k(A: ptr(const(bf16), (128, K)) @ grid[1], B: ptr(const(bf16), (64, K)) @ grid[1], C: ptr(float, (128, 64)) @ grid[1], K: int @ grid[1]):
    with group(grid[1]):
        with partition(C, p=block[1], f=lambda i, j: (i, j), disjoint=True) as Cb:
            with group(block[1]):
                At: pipeline(shared(bf16[128, 64], swizzle=128), 2)
                Bt: pipeline(shared(bf16[64, 64], swizzle=128), 2)
                w: int @ warpgroup = id()
                t: int @ thread[1] = id()
                acc: float[32] @ thread[1]
                acc2: float[32] @ thread[1]
                ar: bf16[32] @ thread[1]
                tot: float @ thread[1] = 0.0

                for j in range(1):
                    for k in range(K / 64):
                        with stage(At) as a, stage(Bt) as bt:
                            with claim(a, p=thread[128]) as ap, claim(bt, p=thread[128]) as bp:
                                match split(thread):
                                    case 256:
                                        pass
                                    case 128:
                                        async_copy(ap, A, at=(0, k * 64))
                                        async_copy(bp, B, at=(0, k * 64))
                            with claim(a, p=thread[256]) as ac, claim(bt, p=thread[256]) as bc:
                                match split(thread):
                                    case 256:
                                        with group(warpgroup):
                                            if k < 2:
                                                wgmma(acc, tile(ac, (64 * w, 0), (64, 64)), bc, zero=(k == 0))



                with partition(Cb, p=thread[1], f=lambda i: (t % 128, i + 32 * (t / 128))) as c:
                    match split(thread):
                        case 256:
                            c[0] = acc[0] + acc[31] + tot
                            c[1] = acc2[0] + acc2[31] + tot


def arguments():
    return ((np.random.default_rng(0).integers(-3, 4, (128, 576)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), (np.random.default_rng(0).integers(-3, 4, (64, 576)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), np.zeros((128, 64), np.float32), 576,)
