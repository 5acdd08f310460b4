"""Warp specialization without TMA, for sm_80 and later: two warps fill a pipeline by cp.async, whose mbarriers the copies complete; four multiply (mma).
"""

from __future__ import annotations

import numpy as np

from snap import *

BM, BN, BK, PAD = 64, 64, 32, 8


@kernel(threads=192, where=lambda M, N, K, blocks: (M % 64 == 0, 64 <= M <= 2**30, N % 64 == 0, 64 <= N <= 2**30, K % 32 == 0, 4096 * blocks <= M * N <= 2**42))
def gemm(A: ptr(const(bf16), (M, K)), B: ptr(const(bf16), (N, K)), C: ptr(float, (M, N)), M: int, N: int, K: int):
    """C = A @ B.T.  Rows of the tiles are padded, so that ldmatrix meets no bank twice."""
    with each(block, C, shape=(M / BM, N / BN)) as (m, n):
        At: pipeline(shared(bf16[BM, BK + PAD]), 4)
        Bt: pipeline(shared(bf16[BN, BK + PAD]), 4)
        acc: float[8, 4] @ thread[1]
        compute, load = roles(128, 64)
        for k in range(K / BK):
            with stage(At) as a, stage(Bt) as b:
                with load(a, b), each(thread, a.view(uint4), b.view(uint4)) as t:
                    for i in range(BM / 16):
                        async_copy(a[16 * i + t / 4, t % 4], A.view(uint4)[BM * m + 16 * i + t / 4, 4 * k + t % 4])
                        async_copy(b[16 * i + t / 4, t % 4], B.view(uint4)[BN * n + 16 * i + t / 4, 4 * k + t % 4])
                with compute(a, b), each(warp) as w:
                    l: int @ thread[1] = id()
                    for kk in range(BK / 16):
                        top: bf16[8] @ thread[1]
                        bottom: bf16[8] @ thread[1]
                        intrinsic.ldmatrix(top, a[w / 2 * 32 + l % 16, 16 * kk + l / 16 * 8])
                        intrinsic.ldmatrix(bottom, a[w / 2 * 32 + 16 + l % 16, 16 * kk + l / 16 * 8])
                        for j in range(4):
                            fb: bf16[4] @ thread[1]
                            intrinsic.ldmatrix(fb, b[w % 2 * 32 + 8 * j + l % 8, 16 * kk + l / 8 % 2 * 8])
                            intrinsic.mma(
                                top[0], top[1], top[2], top[3], top[4], top[5], top[6], top[7],
                                fb[0], fb[1], fb[2], fb[3], acc[j, 0], acc[j, 1], acc[j, 2], acc[j, 3],
                                out=[acc[j, 0], acc[j, 1], acc[j, 2], acc[j, 3]])
                            intrinsic.mma(
                                bottom[0], bottom[1], bottom[2], bottom[3], bottom[4], bottom[5], bottom[6], bottom[7],
                                fb[0], fb[1], fb[2], fb[3], acc[4 + j, 0], acc[4 + j, 1], acc[4 + j, 2], acc[4 + j, 3],
                                out=[acc[4 + j, 0], acc[4 + j, 1], acc[4 + j, 2], acc[4 + j, 3]])
        with compute(), each(thread, C) as t:
            for i in range(2):
                for j in range(4):
                    for e in range(4):
                        C[BM * m + t / 64 * 32 + 16 * i + e / 2 * 8 + t % 32 / 4, BN * n + t / 32 % 2 * 32 + 8 * j + t % 4 * 2 + e % 2] = acc[4 * i + j, e]


@kernel(threads=128, where=lambda blocks, n, x, y: (len(x) >= 64 * n, len(y) >= 64 * n, n <= 2**25, blocks == 1))
def around(x: ptr(const(int)), y: ptr(int), n: int):
    """A slot goes round: copied by the first role, changed by the second and the third, read by the first."""
    with each(block, y):
        ring: pipeline(shared(int[64]), 2)
        first, second, third = roles(64, 32, 32)
        for k in range(n):
            with stage(ring) as s:
                with first(s), each(thread, s) as t:
                    async_copy(s[t], x[64 * k + t])
                with second(s), each(thread, s) as t:
                    s[t] = 2 * s[t]
                    s[t + 32] = 2 * s[t + 32]
                with third(s), each(thread, s) as t:
                    s[t] = s[t] + 1
                    s[t + 32] = s[t + 32] + 1
                with first(s), each(thread, y) as t:
                    y[64 * k + t] = s[63 - t]


def check():
    rng = np.random.default_rng(0)
    for m, n, k in ((64, 64, 32), (128, 64, 256)):
        a, b = rng.integers(-8, 8, (m, k)).astype(np.float32), rng.integers(-8, 8, (n, k)).astype(np.float32)
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
        c = np.zeros((m, n), np.float32)
        gemm[m // BM * n // BN](*bits, c, m, n, k)
        np.testing.assert_array_equal(c, a @ b.T)
    assert not gemm.races(*bits, c, m, n, k, blocks=1, seeds=2)
    x, y = np.arange(7 * 64, dtype=np.int32), np.zeros(7 * 64, np.int32)
    around[1](x, y, 7)
    np.testing.assert_array_equal(y, (2 * x + 1).reshape(7, 64)[:, ::-1].reshape(-1))
    assert not around.races(x, y, 7, blocks=1, seeds=4)
