from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def k(A: ptr(const(bf16), (M, K)) @ grid[1], B: ptr(const(bf16), (16, K)) @ grid[1], C: ptr(float, (M, 16)) @ grid[1], M: int @ grid[1], K: int @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(C, p=block[1], f=lambda i, j: (i, j), disjoint=True) as Cb:
            with group(block[1]):
                a: pipeline(shared(bf16[64, 16], swizzle=32), 2)
                b: pipeline(shared(bf16[16, 16], swizzle=32), 2)
                acc: float[8] @ thread[1]
                acc[0] = 0.0
                for q in range(7):
                    with stage(a) as an, stage(b) as bn:
                        with claim(an, p=thread[128]) as ap, claim(bn, p=thread[128]) as bp:
                            match split(thread):
                                case 128:
                                    pass
                                case 128:
                                    async_copy(ap, A, at=(0, q * 16))
                                    async_copy(bp, B, at=(0, q * 16))
                        with claim(an, p=thread[128]) as ac, claim(bn, p=thread[128]) as bc:
                            match split(thread):
                                case 128:
                                    wgmma(acc, ac, bc, zero=(q == 0))
                                case 128:
                                    pass

                with claim(Cb, p=thread[128]) as Cg:
                    match split(thread):
                        case 128:
                            l: int @ thread[1] = id()
                            with partition(Cg, p=thread[1], f=lambda i: (l, i)) as cell:
                                for i in range(8):
                                    cell[i] = acc[i]


def arguments():
    r = np.random.default_rng(0)
    a, b = ((r.integers(-2, 3, s).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for s in ((256, 128), (16, 128)))
    return a, b, np.zeros((256, 16), np.float32), 256, 128, 3
