"""A contender for the last rung: the copies of a tile are issued between the products of another, not in one burst after the barrier.

Input:      as snap.lib.sgemm.warp_tiled
Output:     a kernel of the same parameters
Invariant:  as there.  Beyond the last tile its copies are made again, into slots that nobody reads: a condition would cut the loop into pieces
Non-goals:  being called: it belongs in the library if it is the faster one
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib.sgemm import BAND


@functools.cache
def interleaved(BM, BN, BK, TM, TN, STAGES, WIDTH, GROUP=BAND):
    """Everything but the place of the copies is as in the library's kernel."""
    W = float4 if WIDTH == 4 else float
    ROWS, COLUMNS = 4 * TM, 8 * TN  # of a warp
    ACROSS = BN // COLUMNS
    T = BM // ROWS * ACROSS * 32
    WORDS = BN // WIDTH  # a row of B's tile
    ASTEP, BSTEP = T // BK, T // WORDS  # rows that the block copies at a time
    AHEAD = STAGES - 1
    COPIES = BM // ASTEP  # of A, a thread; of B there is one for every EVERY of them
    EVERY = COPIES // (BK // BSTEP)
    STEPS = BK // COPIES  # of k, after each copy of A
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
                    arow: int[COPIES] @ thread[1]
                    for q in unroll(range(COPIES)):
                        arow[q] = min(m0 + t / BK + q * ASTEP, M - 1)
                    acc: float[TM, TN] @ thread[1]
                    x: float[TM] @ thread[1]
                    y: float[TN] @ thread[1]
                    steps: int = K / BK
                    for k in range(0 if steps == 0 else steps + AHEAD):
                        with stage(As, k) as next_a, stage(Bs, k) as next_b:
                            with partition(next_a, p=thread[1], f=lambda q: (t % BK, q * ASTEP + t / BK)) as da, \
                                    partition(next_b.view(W), p=thread[1], f=lambda q: (q * BSTEP + t / WORDS, t % WORDS)) as db:
                                to: int = min(k, steps - 1) * BK
                                if k < AHEAD:
                                    for q in unroll(range(COPIES)):
                                        async_copy(da[q], A[arow[q], to + t % BK])
                                    for q in unroll(range(BK // BSTEP)):
                                        async_copy(db[q], B.view(W)[to + q * BSTEP + t / WORDS, bcolumn])
                                else:
                                    with stage(As, k - AHEAD) as a, stage(Bs, k - AHEAD) as b:
                                        for q in unroll(range(COPIES)):
                                            async_copy(da[q], A[arow[q], to + t % BK])
                                            if q % EVERY == 0:
                                                async_copy(db[q / EVERY], B.view(W)[to + q / EVERY * BSTEP + t / WORDS, bcolumn])
                                            for h in unroll(range(STEPS)):
                                                for i in unroll(range(TM // 4)):
                                                    x.view(float4)[i] = a.view(float4)[q * STEPS + h, row + 4 * i]
                                                for j in unroll(range(TN // 4)):
                                                    y.view(float4)[j] = b.view(float4)[q * STEPS + h, column + 8 * j]
                                                for i in unroll(range(TM)):
                                                    for j in unroll(range(TN)):
                                                        acc[i, j + i % 2 * (TN - 1 - 2 * j)] += x[i] * y[j + i % 2 * (TN - 1 - 2 * j)]
                    for k in range(steps * BK, K):
                        for i in unroll(range(TM)):
                            x[i] = A[min(m0 + (row + i / 4 * 4) * 4 + i % 4, M - 1), k]
                        for j in unroll(range(TN)):
                            y[j] = B[k, min(n0 + (column + j / 4 * 8) * 4 + j % 4, N - 1)]
                        for i in unroll(range(TM)):
                            for j in unroll(range(TN)):
                                acc[i, j] += x[i] * y[j]
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
