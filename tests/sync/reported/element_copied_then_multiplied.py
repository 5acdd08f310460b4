from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def k(A: ptr(const(bf16), (M, K)) @ grid[1], B: ptr(const(bf16), (16, K)) @ grid[1], C: ptr(float, (M, 16)) @ grid[1], M: int @ grid[1], K: int @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(C, p=block[1], f=lambda i, j: (i, j), disjoint=True) as Cb:
            with group(block[1]):
                t: int @ thread[1] = id()
                a: pipeline(shared(bf16[64, 16], swizzle=32), 2)
                b: shared(bf16[16, 16], swizzle=32)
                async_copy(b, B, at=(0, 0))
                acc: float[8] @ thread[1]
                for q in range(n):
                    with stage(a) as s:
                        with partition(s, p=thread[1], f=lambda i: (t / 2, t % 2 * 8 + i)) as c:
                            for i in range(4):
                                async_copy(c.view(float)[i], A.view(float)[t / 2, t % 2 * 4 + i])
                        wgmma(acc, s, b, zero=(q == 0))
                with partition(Cb, p=thread[1], f=lambda i: (t, i)) as cell:
                    for i in range(8):
                        cell[i] = acc[i]


def arguments():
    r = np.random.default_rng(0)
    a, b = ((r.integers(-2, 3, s).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for s in ((256, 128), (16, 128)))
    return a, b, np.zeros((256, 16), np.float32), 256, 128, 3
