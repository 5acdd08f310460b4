"""bf16 GEMM, C = A @ B.T, tiles of 128 x 256: one warpgroup loads boxes, two multiply; tiles go out through shared memory as boxes.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=384, where=lambda M, N, K, blocks: (M % 128 == 0, 128 <= M <= 2**30, N % 256 == 0, 256 <= N <= 2**30, K % 64 == 0, 64 <= K <= 2**30, M * N <= 2**42, M * N * K <= 2**50, blocks <= 2**20))
def hgemm(A: ptr(const(bf16), (M, K)), B: ptr(const(bf16), (N, K)), C: ptr(bf16, (M, N)), M: int, N: int, K: int):
    with each(block, C, disjoint=C):
        At, Bt = pipeline(shared(bf16[128, 64], swizzle=128), 4), pipeline(shared(bf16[256, 64], swizzle=128), 4)
        Ct, acc = pipeline(shared(bf16[2, 64, 64], swizzle=128), 2), registers(float[128])
        compute, load = roles(256, 128, registers=(240, 24))
        for m, n in strided(block, shape=(M / 128, N / 256)):
            for k in range(K / 64):
                with stage(At) as a, stage(Bt) as b:
                    with load(a, b):
                        async_copy(a, A, at=(m * 128, k * 64))
                        async_copy(b, B, at=(n * 256, k * 64))
                    with compute(a, b), each(warpgroup) as w:
                        wgmma(acc, tile(a, (64 * w, 0), (64, 64)), b, zero=(k == 0))
            for q in unroll(range(4)):
                with stage(Ct) as ct, compute(), each(warpgroup, ct, C, disjoint=C) as w:
                    store_acc(ct[w], acc, first=64 * q)
                    async_copy(C, ct[w], at=(m * 128 + 64 * w, n * 256 + 64 * q))


def check():
    for m, n, k, blocks in ((128, 256, 384, 1), (256, 256, 64, 1)):
        rng = np.random.default_rng(m)
        a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((m, k), (n, k)))
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
        c = np.zeros((m, n), np.uint16)
        hgemm[blocks](*bits, c, m, n, k)
        np.testing.assert_array_equal((c.astype(np.uint32) << 16).view(np.float32), a @ b.T)
    assert not hgemm.races(*bits, c, m, n, k, blocks=1, seeds=2)
