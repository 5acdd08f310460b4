"""bf16 GEMM, C = A @ B.T, tiles of 128 x 256: one warpgroup loads boxes, two multiply; tiles go out through shared memory as boxes."""

from __future__ import annotations

import numpy as np

import snap
from snap import *


@kernel
@requires(grid[1], block[1], thread[384])
def hgemm(A: ptr(const(bf16), (M, K)) @ grid[1], B: ptr(const(bf16), (N, K)) @ grid[1], C: ptr(bf16, (M, N)) @ grid[1],
          M: int @ grid[1], N: int @ grid[1], K: int @ grid[1]):
    with group(grid[1]):
        b0: int @ block[1] = id()
        nb: int = count(block[1])
        with partition(C, p=block[1], f=lambda i, j: (i, j), disjoint=True) as Cb:
            with group(block[1]):
                At: pipeline(shared(bf16[128, 64], swizzle=128), 4)
                Bt: pipeline(shared(bf16[256, 64], swizzle=128), 4)
                Ct: pipeline(shared(bf16[2, 64, 64], swizzle=128), 2)
                w: int @ warpgroup = id()
                acc: float[128] @ thread[1]
                match split(thread):
                    case 256:
                        intrinsic.setmaxnreg(240)
                    case 128:
                        intrinsic.setmaxnreg(24)
                for t in range(b0, M / 128 * (N / 256), nb):
                    m0: int = t / (N / 256) * 128
                    n0: int = t % (N / 256) * 256
                    for k in range(K / 64):
                        with stage(At) as a, stage(Bt) as bt:
                            with claim(a, p=thread[128]) as ap, claim(bt, p=thread[128]) as bp:
                                match split(thread):
                                    case 256:
                                        pass
                                    case 128:
                                        async_copy(ap, A, at=(m0, k * 64))
                                        async_copy(bp, B, at=(n0, k * 64))
                            with claim(a, p=thread[256]) as ac, claim(bt, p=thread[256]) as bc:
                                match split(thread):
                                    case 256:
                                        with group(warpgroup):
                                            wgmma(acc, tile(ac, (64 * w, 0), (64, 64)), bc, zero=(k == 0))
                    with partition(Cb, p=warpgroup, f=lambda i, j: (m0 + 64 * w + i, n0 + j), disjoint=True) as cg:
                        for q in unroll(range(4)):
                            with stage(Ct) as ct:
                                with partition(ct, p=warpgroup, f=lambda i, j: (w, i, j)) as mine:
                                    match split(thread):
                                        case 256:
                                            with group(warpgroup):
                                                store_acc(mine, acc, first=64 * q)
                                                async_copy(cg, mine, at=(0, 64 * q))


def check():
    for m, n, k, blocks in ((128, 256, 384, 1), (256, 256, 64, 1)):
        rng = np.random.default_rng(m)
        a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((m, k), (n, k)))
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
        c = np.zeros((m, n), np.uint16)
        hgemm[blocks](*bits, c, m, n, k)
        np.testing.assert_array_equal((c.astype(np.uint32) << 16).view(np.float32), a @ b.T)
    assert not snap.races(hgemm, *bits, c, m, n, k, blocks=1, seeds=2)
