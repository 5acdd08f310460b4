"""`snap.lib.sgemm`: a product of f32 matrices on the ordinary arithmetic units, without tensor cores.

Input:      a of M x K, b of K x N, both f32
Output:     a @ b of M x N; products and sums in f32
Invariant:  memory beyond the arrays is not touched: rows and columns beyond the last are read as the last and not written, and what is left of K
            after whole tiles is read where it lies
Non-goals:  tensor cores (gemm, gemm_tf32); scaling, adding to what is there
"""

from __future__ import annotations

import functools

from snap import *

BAND = 8


@functools.cache
def warp_tiled(BM, BN, BK, TM, TN, STAGES, WIDTH, GROUP=BAND):
    """Tiles come by copies in the background, STAGES of them at a time, while the oldest is multiplied.

    A lane has TM x TN results: 4 lanes of a warp lie below each other and 8 beside each other, so a read of shared memory is one float4 a lane, no
    two different ones in one bank.  Lanes that read the same word are neighbours (lane ^ 1 or lane ^ 2), which the hardware serves together.  a is
    read along k, four steps at a time, so it need not be turned round; its rows are padded by one word.
    """
    W = float4 if WIDTH == 4 else float
    ROWS, COLUMNS = 4 * TM, 8 * TN  # of a warp
    ACROSS = BN // COLUMNS
    T = BM // ROWS * ACROSS * 32
    AWORDS, BWORDS = BK // WIDTH, BN // WIDTH  # words a row of the tiles
    ASTEP, BSTEP = T // AWORDS, T // BWORDS  # rows that the block copies at a time
    ACOPIES, BCOPIES = BM // ASTEP, BK // BSTEP
    PARTS = 4 // WIDTH  # words a float4
    AHEAD = STAGES - 1

    @kernel
    @requires(grid[1], block[1], thread[T])
    def sgemm(A: ptr(const(float), (M, K)) @ grid[1], B: ptr(const(float), (K, N)) @ grid[1], C: ptr(float, (M, N)) @ grid[1],
              M: int @ grid[1], N: int @ grid[1], K: int @ grid[1]):
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
                    As: pipeline(shared(float[BM, BK + 4]), STAGES)
                    Bs: pipeline(shared(float[BK, BN]), STAGES)
                    t: int @ thread[1] = id()
                    w: int @ warp = id()
                    row: int @ thread[1] = w / ACROSS * ROWS + t % 2 + t % 32 / 16 * 2
                    column: int @ thread[1] = w % ACROSS * (2 * TN) + t % 16 / 2
                    ak: int @ thread[1] = t % AWORDS
                    bk: int @ thread[1] = t / BWORDS
                    bcolumn: int @ thread[1] = min(n0 / WIDTH + t % BWORDS, N / WIDTH - 1)
                    arow: int[ACOPIES] @ thread[1]
                    for q in unroll(range(ACOPIES)):
                        arow[q] = min(m0 + t / AWORDS + q * ASTEP, M - 1)
                    acc: float[TM, TN] @ thread[1]
                    x: float[TM, 4] @ thread[1]
                    y: float[TN] @ thread[1]
                    steps: int = K / BK
                    for k in range(steps + AHEAD):
                        if k < steps:
                            with stage(As, k) as a, stage(Bs, k) as b:
                                with partition(a.view(W), p=thread[1], f=lambda q: (q * ASTEP + t / AWORDS, t % AWORDS)) as d:
                                    for q in unroll(range(ACOPIES)):
                                        async_copy(d[q], A.view(W)[arow[q], k * AWORDS + ak])
                                with partition(b.view(W), p=thread[1], f=lambda q: (q * BSTEP + t / BWORDS, t % BWORDS)) as d:
                                    for q in unroll(range(BCOPIES)):
                                        async_copy(d[q], B.view(W)[k * BK + q * BSTEP + bk, bcolumn])
                        if k >= AHEAD:
                            with stage(As, k - AHEAD) as a, stage(Bs, k - AHEAD) as b:
                                for four in unroll(range(BK / 4)):
                                    for i in unroll(range(TM)):
                                        x.view(float4)[i, 0] = a.view(float4)[row + 4 * i, four]
                                    for kk in unroll(range(4)):
                                        for j in unroll(range(TN / 4)):
                                            y.view(float4)[j] = b.view(float4)[four * 4 + kk, column + 8 * j]
                                        for i in unroll(range(TM)):
                                            for j in unroll(range(TN)):
                                                acc[i, j] += x[i, kk] * y[j]
                    for k in range(steps * BK, K):
                        for i in unroll(range(TM)):
                            x[i, 0] = A[min(m0 + row + 4 * i, M - 1), k]
                        for j in unroll(range(TN)):
                            y[j] = B[k, min(n0 + (column + j / 4 * 8) * 4 + j % 4, N - 1)]
                        for i in unroll(range(TM)):
                            for j in unroll(range(TN)):
                                acc[i, j] += x[i, 0] * y[j]
                    with partition(Cb, p=thread[1]) as Ct:
                        with group(thread[1]):
                            for i in unroll(range(TM)):
                                for j in unroll(range(TN / WIDTH)):
                                    at: int = n0 / WIDTH + (column + j / PARTS * 8) * PARTS + j % PARTS
                                    if m0 + row + 4 * i < M and at < N / WIDTH:
                                        Ct[m0 + row + 4 * i, at] = acc.view(W)[i, j]

    return sgemm
