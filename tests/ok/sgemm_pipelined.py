"""Matrix products whose tiles are copied in the background, while older ones are multiplied: three stages, and two.
"""

from __future__ import annotations

import numpy as np

from snap import *

BM, BN, BK = 32, 32, 8


@kernel(threads=64, where=lambda M, N, K, blocks: (M % 32 == 0, 32 <= M <= 2**30, N % 32 == 0, 32 <= N <= 2**30, K % 8 == 0, 0 <= K <= 2**30, 1024 * blocks <= M * N))
def three_stages(A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int):
    with each(block, shape=(..., N / BN)) as (m, n):
        As, Bs, acc = pipeline(shared(float[BM, BK + 4]), 3), pipeline(shared(float[BK, BN]), 3), registers(float[4, 4])
        y, x = ids(thread, shape=(..., 8))
        t: int @ thread[1] = id()
        for k in range(K / BK + 2):
            if k < K / BK:
                with stage(As, k) as a, stage(Bs, k) as b, each(thread, a.view(float4), b.view(float4)):
                    async_copy(a[t / 2, t % 2], A.view(float4)[m * BM + t / 2, k * 2 + t % 2])
                    async_copy(b[y, x], B.view(float4)[k * BK + y, n * (BN / 4) + x])
            if k >= 2:
                with stage(As, k - 2) as a, stage(Bs, k - 2) as b, each(thread):
                    for kk in range(BK):
                        column: float[4] = [a[y * 4, kk], a[y * 4 + 1, kk], a[y * 4 + 2, kk], a[y * 4 + 3, kk]]
                        for e in range(16):
                            acc[e / 4, e % 4] += column[e / 4] * b[kk, x * 4 + e % 4]
        with each(thread, C):
            for i, j in range(shape=(4, 4)):
                C[m * BM + y * 4 + i, n * BN + x * 4 + j] = acc[i, j]


@kernel(threads=64, where=lambda M, N, K, blocks: (M % 32 == 0, 32 <= M <= 2**30, N % 32 == 0, 32 <= N <= 2**30, K % 8 == 0, 0 <= K <= 2**30, 1024 * blocks <= M * N))
def two_stages(A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int):
    """Double-buffered: tile k is multiplied while tile k + 1 is on its way."""
    with each(block, shape=(..., N / BN)) as (m, n):
        As, Bs, acc = pipeline(shared(float[BM, BK + 4]), 2), pipeline(shared(float[BK, BN]), 2), registers(float[4, 4])
        y, x = ids(thread, shape=(..., 8))
        t: int @ thread[1] = id()
        for k in range(K / BK + 1):
            if k < K / BK:
                with stage(As, k) as a, stage(Bs, k) as b, each(thread, a.view(float4), b.view(float4)):
                    async_copy(a[t / 2, t % 2], A.view(float4)[m * BM + t / 2, k * 2 + t % 2])
                    async_copy(b[y, x], B.view(float4)[k * BK + y, n * (BN / 4) + x])
            if k >= 1:
                with stage(As, k - 1) as a, stage(Bs, k - 1) as b, each(thread):
                    for kk in range(BK):
                        column: float[4] = [a[y * 4, kk], a[y * 4 + 1, kk], a[y * 4 + 2, kk], a[y * 4 + 3, kk]]
                        for e in range(16):
                            acc[e / 4, e % 4] += column[e / 4] * b[kk, x * 4 + e % 4]
        with each(thread, C):
            for i, j in range(shape=(4, 4)):
                C[m * BM + y * 4 + i, n * BN + x * 4 + j] = acc[i, j]


def check():
    M, N, K = 32, 64, 40
    rng = np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (M, K)).astype(np.float32), rng.integers(-4, 5, (K, N)).astype(np.float32)
    for k in (three_stages, two_stages):
        c = np.zeros((M, N), np.float32)
        k[2](a, b, c, M, N, K)
        np.testing.assert_array_equal(c, a @ b)
        assert not k.races(a, b[:, :32].copy(), c[:, :32].copy(), M, 32, K, blocks=1, seeds=3)
