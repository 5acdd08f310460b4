"""The way to a fast product of f32 matrices, one step at a time: the first four rungs.  The fifth is the library's own
(sgemm.py).

Input:      factories: sizes of tiles.  A kernel takes A of M x K, B of K x N, C of M x N, and those three numbers
Output:     kernels that write C = A @ B, launched with `blocks_of_elements` (the first two) or `blocks_of_tiles`
Invariant:  any extents: what lies outside of a matrix is read as zero and not written
Non-goals:  speed: each rung leaves out what the next one is there to show
"""

from __future__ import annotations

import functools

from snap import *


def blocks_of_elements(m: int, n: int, threads: int = 256) -> int:
    return -(-m * n // threads)


def blocks_of_tiles(m: int, n: int, rows: int, columns: int) -> int:
    return -(-m // rows) * -(-n // columns)


@functools.cache
def naive(T=256):
    """A thread for each element.  Neighbouring threads have neighbouring rows: what a warp reads and writes is
    scattered over 32 of them.
    """

    @kernel(threads=T)
    def sgemm_naive(
        A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int
    ):
        with group(grid[1]):
            row: int @ thread[1] = id() % M
            column: int @ thread[1] = id() / M
            with partition(C, p=thread[1], f=lambda j: (row, column + j)) as mine:
                with group(thread[1]):
                    if column < N:
                        sum: float = 0.0
                        for k in range(K):
                            sum += A[row, k] * B[k, column]
                        mine[0] = sum

    return sgemm_naive


@functools.cache
def coalesced(T=256):
    """Neighbouring threads have neighbouring columns: a warp reads one element of A, and 128 bytes of B that lie
    together.
    """

    @kernel(threads=T)
    def sgemm_coalesced(
        A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int
    ):
        with group(grid[1]):
            row: int @ thread[1] = id() / N
            column: int @ thread[1] = id() % N
            with partition(C, p=thread[1], f=lambda j: (row, column + j)) as mine:
                with group(thread[1]):
                    if row < M:
                        sum: float = 0.0
                        for k in range(K):
                            sum += A[row, k] * B[k, column]
                        mine[0] = sum

    return sgemm_coalesced


@functools.cache
def blocked(BM=128, BN=128, BK=8, TM=8, TN=8):
    """A block computes BM x BN elements, a thread TM x TN of them.  Tiles of A and B are fetched into shared memory
    once for the whole block, and from there an element goes into registers once for TN (or TM) products.
    """
    ACROSS = BN // TN
    T = BM // TM * ACROSS

    @kernel(threads=T)
    def sgemm_blocked(
        A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int
    ):
        with group(grid[1]):
            tiles: int = (N + BN - 1) / BN
            m0: int @ block[1] = id() / tiles * BM
            n0: int @ block[1] = id() % tiles * BN
            with partition(C, p=block[1], disjoint=True) as C_block:
                with group(block[1]):
                    As: shared(float[BM, BK])
                    Bs: shared(float[BK, BN])
                    t: int @ thread[1] = id()
                    row: int @ thread[1] = t / ACROSS * TM
                    column: int @ thread[1] = t % ACROSS * TN
                    acc: float[TM, TN] @ thread[1]
                    x: float[TM] @ thread[1]
                    y: float[TN] @ thread[1]
                    for k0 in range(0, K, BK):
                        with partition(As, p=thread[1], f=lambda q: (q * (T // BK) + t / BK, t % BK)) as own:
                            for q in unroll(range(BM * BK // T)):
                                at: int @ thread[1] = m0 + q * (T // BK) + t / BK
                                own[q] = A[at, k0 + t % BK] if at < M and k0 + t % BK < K else 0.0
                        with partition(Bs, p=thread[1], f=lambda q: ((q * T + t) / BN, (q * T + t) % BN)) as own:
                            for q in unroll(range(BN * BK // T)):
                                at: int @ thread[1] = k0 + (q * T + t) / BN
                                to: int @ thread[1] = n0 + (q * T + t) % BN
                                own[q] = B[at, to] if at < K and to < N else 0.0
                        for k in range(BK):
                            for i in unroll(range(TM)):
                                x[i] = As[row + i, k]
                            for j in unroll(range(TN)):
                                y[j] = Bs[k, column + j]
                            for i in unroll(range(TM)):
                                for j in unroll(range(TN)):
                                    acc[i, j] += x[i] * y[j]
                    with partition(C_block, p=thread[1], f=lambda i, j: (m0 + row + i, n0 + column + j)) as own:
                        with group(thread[1]):
                            for i in unroll(range(TM)):
                                for j in unroll(range(TN)):
                                    if m0 + row + i < M and n0 + column + j < N:
                                        own[i, j] = acc[i, j]

    return sgemm_blocked


@functools.cache
def vectorised(WIDTH=4, BM=128, BN=128, BK=8, TM=8, TN=8):
    """As `blocked`, four elements at a time: A, B and C in words of WIDTH elements, which their rows are multiples of;
    and A's tile is turned round on its way into shared memory, so that a thread reads its rows of it as float4, too.
    """
    W = float4 if WIDTH == 4 else float
    ACROSS = BN // TN
    T = BM // TM * ACROSS
    AWORDS, BWORDS = BK // WIDTH, BN // WIDTH

    @kernel(threads=T)
    def sgemm_vectorised(
        A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int
    ):
        with group(grid[1]):
            tiles: int = (N + BN - 1) / BN
            m0: int @ block[1] = id() / tiles * BM
            n0: int @ block[1] = id() % tiles * BN
            with partition(C.view(W), p=block[1], disjoint=True) as C_block:
                with group(block[1]):
                    As: shared(float[BK, BM])
                    Bs: shared(float[BK, BN])
                    t: int @ thread[1] = id()
                    row: int @ thread[1] = t / ACROSS * TM
                    column: int @ thread[1] = t % ACROSS * TN
                    acc: float[TM, TN] @ thread[1]
                    x: float[TM] @ thread[1]
                    y: float[TN] @ thread[1]
                    word: float[WIDTH] @ thread[1]
                    for k0 in range(0, K, BK):
                        for q in unroll(range(BM * AWORDS // T)):
                            at: int @ thread[1] = m0 + (q * T + t) / AWORDS
                            to: int @ thread[1] = k0 / WIDTH + (q * T + t) % AWORDS
                            with group(thread[1]):
                                word.view(W)[0] = A.view(W)[at, to] if at < M and to < K / WIDTH else W(0)
                            with partition(
                                As, p=thread[1], f=lambda e: ((q * T + t) % AWORDS * WIDTH + e, (q * T + t) / AWORDS)
                            ) as own:
                                for e in unroll(range(WIDTH)):
                                    own[e] = word[e]
                        for q in unroll(range(BK * BWORDS // T)):
                            at: int @ thread[1] = k0 + (q * T + t) / BWORDS
                            to: int @ thread[1] = n0 / WIDTH + (q * T + t) % BWORDS
                            with partition(
                                Bs.view(W), p=thread[1], f=lambda e: ((q * T + t) / BWORDS, (q * T + t) % BWORDS + e)
                            ) as own:
                                own[0] = B.view(W)[at, to] if at < K and to < N / WIDTH else W(0)
                        for k in unroll(range(BK)):
                            for i in unroll(range(TM // 4)):
                                x.view(float4)[i] = As.view(float4)[k, row / 4 + i]
                            for j in unroll(range(TN // 4)):
                                y.view(float4)[j] = Bs.view(float4)[k, column / 4 + j]
                            for i in unroll(range(TM)):
                                for j in unroll(range(TN)):
                                    acc[i, j] += x[i] * y[j]
                    with partition(
                        C_block, p=thread[1], f=lambda i, j: (m0 + row + i, (n0 + column) / WIDTH + j)
                    ) as own:
                        with group(thread[1]):
                            for i in unroll(range(TM)):
                                for j in unroll(range(TN // WIDTH)):
                                    if m0 + row + i < M and (n0 + column) / WIDTH + j < N / WIDTH:
                                        own[i, j] = acc.view(W)[i, j]

    return sgemm_vectorised
