"""Matrix products whose tiles are copied in the background, while older ones are multiplied: three stages, and two."""

from __future__ import annotations

import numpy as np

import snap
from snap import *

BM, BN, BK = 32, 32, 8


@kernel
@requires(grid[1], block[1], thread[64])
def three_stages(A: ptr(const(float), (M, K)) @ grid[1], B: ptr(const(float), (K, N)) @ grid[1], C: ptr(float, (M, N)) @ grid[1],
                 M: int @ grid[1], N: int @ grid[1], K: int @ grid[1]):
    with group(grid[1]):
        m0: int @ block[1] = id() / (N / BN) * BM
        n0: int @ block[1] = id() % (N / BN) * BN
        with partition(C, p=block[1], f=lambda i, j: (m0 + i, n0 + j)) as Cb:
            with group(block[1]):
                As: pipeline(shared(float[BM, BK + 4]), 3)
                Bs: pipeline(shared(float[BK, BN]), 3)
                t: int @ thread[1] = id()
                acc: float[4, 4] @ thread[1]
                for k in range(K / BK + 2):
                    if k < K / BK:
                        with stage(As, k) as a, stage(Bs, k) as b:
                            with partition(a.view(float4), p=thread[1], f=lambda q: (t / 2 + q, t % 2)) as d:
                                async_copy(d[0], A.view(float4)[m0 + t / 2, k * 2 + t % 2])
                            with partition(b.view(float4), p=thread[1], f=lambda q: (t / 8 + q, t % 8)) as d:
                                async_copy(d[0], B.view(float4)[k * BK + t / 8, n0 / 4 + t % 8])
                    if k >= 2:
                        with stage(As, k - 2) as a, stage(Bs, k - 2) as b:
                            for kk in range(BK):
                                column: float[4] @ thread[1]
                                for i in range(4):
                                    column[i] = a[t / 8 * 4 + i, kk]
                                for j in range(4):
                                    y: float @ thread[1] = b[kk, t % 8 * 4 + j]
                                    for i in range(4):
                                        acc[i, j] += column[i] * y
                with partition(Cb, p=thread[1], f=lambda i, j: (t / 8 * 4 + i, t % 8 * 4 + j)) as Ct:
                    for i in range(4):
                        for j in range(4):
                            Ct[i, j] = acc[i, j]


@kernel
@requires(grid[1], block[1], thread[64])
def two_stages(A: ptr(const(float), (M, K)) @ grid[1], B: ptr(const(float), (K, N)) @ grid[1], C: ptr(float, (M, N)) @ grid[1],
               M: int @ grid[1], N: int @ grid[1], K: int @ grid[1]):
    """Double-buffered: tile k is multiplied while tile k + 1 is on its way."""
    with group(grid[1]):
        m0: int @ block[1] = id() / (N / BN) * BM
        n0: int @ block[1] = id() % (N / BN) * BN
        with partition(C, p=block[1], f=lambda i, j: (m0 + i, n0 + j)) as Cb:
            with group(block[1]):
                As: pipeline(shared(float[BM, BK + 4]), 2)
                Bs: pipeline(shared(float[BK, BN]), 2)
                t: int @ thread[1] = id()
                acc: float[4, 4] @ thread[1]
                for k in range(K / BK + 1):
                    if k < K / BK:
                        with stage(As, k) as a, stage(Bs, k) as b:
                            with partition(a.view(float4), p=thread[1], f=lambda q: (t / 2 + q, t % 2)) as d:
                                async_copy(d[0], A.view(float4)[m0 + t / 2, k * 2 + t % 2])
                            with partition(b.view(float4), p=thread[1], f=lambda q: (t / 8 + q, t % 8)) as d:
                                async_copy(d[0], B.view(float4)[k * BK + t / 8, n0 / 4 + t % 8])
                    if k >= 1:
                        with stage(As, k - 1) as a, stage(Bs, k - 1) as b:
                            for kk in range(BK):
                                column: float[4] @ thread[1]
                                for i in range(4):
                                    column[i] = a[t / 8 * 4 + i, kk]
                                for j in range(4):
                                    y: float @ thread[1] = b[kk, t % 8 * 4 + j]
                                    for i in range(4):
                                        acc[i, j] += column[i] * y
                with partition(Cb, p=thread[1], f=lambda i, j: (t / 8 * 4 + i, t % 8 * 4 + j)) as Ct:
                    for i in range(4):
                        for j in range(4):
                            Ct[i, j] = acc[i, j]


def check():
    M, N, K = 32, 64, 40
    rng = np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (M, K)).astype(np.float32), rng.integers(-4, 5, (K, N)).astype(np.float32)
    for k in (three_stages, two_stages):
        c = np.zeros((M, N), np.float32)
        k[2](a, b, c, M, N, K)
        np.testing.assert_array_equal(c, a @ b)
        assert not snap.races(k, a, b[:, :32].copy(), c[:, :32].copy(), M, 32, K, blocks=1, seeds=3)
