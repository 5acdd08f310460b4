"""As hgemm.py, with two blocks a cluster: each loads its half of B's tile for both, and a slot is free when both blocks' warpgroups are done with it.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=384, cluster=2, where=lambda M, N, K, blocks: (M % 256 == 0, 256 <= M <= 2**30, N % 256 == 0, 256 <= N <= 2**30, K % 64 == 0, 64 <= K <= 2**30, M * N <= 2**42, M * N * K <= 2**50, blocks <= 2**20))
def hgemm(A: ptr(const(bf16), (M, K)), B: ptr(const(bf16), (N, K)), C: ptr(bf16, (M, N)), M: int, N: int, K: int):
    with each(cluster, C, disjoint=C):
        At, Bt = pipeline(shared(bf16[128, 64], swizzle=128, across=block), 4), pipeline(shared(bf16[256, 64], swizzle=128, copies=block), 4)
        Ct, acc = pipeline(shared(bf16[2, 64, 64], swizzle=128, across=block), 2), registers(float[128])
        b: int @ block[1] = id()
        w: int @ warpgroup = id() % 3
        compute, load = roles(256, 128, registers=(240, 24))
        for m, n in strided(cluster, shape=(M / 256, N / 256)):
            m0: int @ block[1] = m * 256 + b * 128
            for k in range(K / 64):
                with stage(At) as a, stage(Bt) as bt:
                    with load(a, bt):
                        async_copy(a, A, at=(m0, k * 64))
                        async_copy(bt, B, at=(n * 256, k * 64))
                    with compute(a, bt), each(warpgroup):
                        wgmma(acc, tile(a, (64 * w, 0), (64, 64)), bt, zero=(k == 0))
            for q in unroll(range(4)):
                with stage(Ct) as ct, compute(), each(warpgroup, ct, C, disjoint=C):
                    store_acc(ct[b, w], acc, first=64 * q)
                    async_copy(C, ct[b, w], at=(m0 + 64 * w, n * 256 + 64 * q))


def check():
    for m, n, k, blocks in ((256, 256, 384, 2), (256, 512, 64, 2)):
        rng = np.random.default_rng(m)
        a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((m, k), (n, k)))
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
        c = np.zeros((m, n), np.uint16)
        hgemm[blocks](*bits, c, m, n, k)
        np.testing.assert_array_equal((c.astype(np.uint32) << 16).view(np.float32), a @ b.T)
    assert not hgemm.races(*bits, c, m, n, k, blocks=2, seeds=2)
