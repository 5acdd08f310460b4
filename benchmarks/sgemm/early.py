"""A contender for the last rung: what is multiplied first in a tile is read from shared memory before the tile before it is finished.

Input:      as snap.lib.sgemm.warp_tiled
Output:     a kernel of the same parameters
Invariant:  as there
Non-goals:  being called: it belongs in the library if it is the faster one
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib.sgemm import BAND


@functools.cache
def reads_early(BM, BN, BK, TM, TN, STAGES, WIDTH, GROUP=BAND):
    """What is multiplied next is read from shared memory one step before, the first step of a tile during the last of the one before: those
    products stand behind the barrier, and hide how long the reads after it take.  Everything else is as in the library's kernel."""
    W = float4 if WIDTH == 4 else float
    ROWS, COLUMNS = 4 * TM, 8 * TN  # of a warp
    ACROSS = BN // COLUMNS
    T = BM // ROWS * ACROSS * 32
    WORDS = BN // WIDTH  # a row of B's tile
    ASTEP, BSTEP = T // BK, T // WORDS  # rows that the block copies at a time
    PARTS = 4 // WIDTH  # words a float4

    @kernel
    @requires(grid[1], block[1], thread[T])
    def sgemm(A: ptr(const(float), (M, K)) @ grid[1], B: ptr(const(float), (K, N)) @ grid[1], C: ptr(float, (M, N)) @ grid[1],
              M: int @ grid[1], N: int @ grid[1], K: int @ grid[1], alpha: float @ grid[1]):
        with group(grid[1]):
            across: int = (N + BN - 1) / BN
            down: int = (M + BM - 1) / BM
            band: int @ block[1] = id() / (across * GROUP)
            within: int @ block[1] = id() % (across * GROUP)
            height: int @ block[1] = min(GROUP, down - band * GROUP)
            m0: int @ block[1] = (band * GROUP + within % height) * BM
            n0: int @ block[1] = within / height * BN
            with partition(C.view(W), p=block[1], disjoint=True) as Cb:
                with group(block[1]):
                    As: pipeline(shared(float[BK, BM + 4]), STAGES)
                    Bs: pipeline(shared(float[BK, BN]), STAGES)
                    t: int @ thread[1] = id()
                    w: int @ warp = id()
                    row: int @ thread[1] = w / ACROSS * TM + t % 2 + t % 32 / 16 * 2
                    column: int @ thread[1] = w % ACROSS * (2 * TN) + t % 16 / 2
                    bcolumn: int @ thread[1] = min(n0 / WIDTH + t % WORDS, N / WIDTH - 1)
                    arow: int[BM // ASTEP] @ thread[1]
                    for q in unroll(range(BM // ASTEP)):
                        arow[q] = min(m0 + t / BK + q * ASTEP, M - 1)
                    acc: float[TM, TN] @ thread[1]
                    x: float[2, TM] @ thread[1]
                    y: float[2, TN] @ thread[1]
                    steps: int = K / BK
                    for k in range(steps + STAGES):
                        if k >= STAGES:
                            with stage(As, k - STAGES) as a, stage(Bs, k - STAGES) as b:
                                for kk in unroll(range(BK - 1)):
                                    for i in unroll(range(TM // 4)):
                                        x.view(float4)[(kk + 1) % 2, i] = a.view(float4)[kk + 1, row + 4 * i]
                                    for j in unroll(range(TN // 4)):
                                        y.view(float4)[(kk + 1) % 2, j] = b.view(float4)[kk + 1, column + 8 * j]
                                    for i in unroll(range(TM)):
                                        for j in unroll(range(TN)):
                                            acc[i, j + i % 2 * (TN - 1 - 2 * j)] += x[kk % 2, i] * y[kk % 2, j + i % 2 * (TN - 1 - 2 * j)]
                        if k >= STAGES - 1 and k < steps + STAGES - 1:
                            with stage(As, k - (STAGES - 1)) as a, stage(Bs, k - (STAGES - 1)) as b:
                                for i in unroll(range(TM // 4)):
                                    x.view(float4)[0, i] = a.view(float4)[0, row + 4 * i]
                                for j in unroll(range(TN // 4)):
                                    y.view(float4)[0, j] = b.view(float4)[0, column + 8 * j]
                        if k < steps:
                            with stage(As, k) as a, stage(Bs, k) as b:
                                with partition(a, p=thread[1], f=lambda q: (t % BK, q * ASTEP + t / BK)) as d:
                                    for q in unroll(range(BM // ASTEP)):
                                        async_copy(d[q], A[arow[q], k * BK + t % BK])
                                with partition(b.view(W), p=thread[1], f=lambda q: (q * BSTEP + t / WORDS, t % WORDS)) as d:
                                    for q in unroll(range(BK // BSTEP)):
                                        async_copy(d[q], B.view(W)[k * BK + q * BSTEP + t / WORDS, bcolumn])
                        for i in unroll(range(TM)):
                            for j in unroll(range(TN)):
                                acc[i, j + i % 2 * (TN - 1 - 2 * j)] += x[1, i] * y[1, j + i % 2 * (TN - 1 - 2 * j)]
                    for k in range(steps * BK, K):
                        for i in unroll(range(TM)):
                            x[0, i] = A[min(m0 + (row + i / 4 * 4) * 4 + i % 4, M - 1), k]
                        for j in unroll(range(TN)):
                            y[0, j] = B[k, min(n0 + (column + j / 4 * 8) * 4 + j % 4, N - 1)]
                        for i in unroll(range(TM)):
                            for j in unroll(range(TN)):
                                acc[i, j] += x[0, i] * y[0, j]
                    for i in unroll(range(TM)):
                        for j in unroll(range(TN)):
                            acc[i, j] *= alpha
                    with partition(Cb, p=thread[1]) as Ct:
                        with group(thread[1]):
                            for i in unroll(range(TM)):
                                to: int = m0 + (row + i / 4 * 4) * 4 + i % 4
                                for j in unroll(range(TN // WIDTH)):
                                    at: int = n0 / WIDTH + (column + j / PARTS * 8) * PARTS + j % PARTS
                                    if to < M and at < N / WIDTH:
                                        Ct[to, at] = acc.view(W)[i, j]

    return sgemm
