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
    """A thread for each element.  Neighboring threads have neighboring rows: what a warp reads and writes is
    scattered over 32 of them.
    """

    @kernel(threads=T, where=lambda M, N: M >= 1)
    def sgemm_naive(
        A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int
    ):
        with each(thread, C) as i:
            row, column = i % M, i / M
            if column >= N:
                return
            sum: float = 0.0
            for k in range(K):
                sum += A[row, k] * B[k, column]
            C[row, column] = sum

    return sgemm_naive


@functools.cache
def coalesced(T=256):
    """Neighboring threads have neighboring columns: a warp reads one element of A, and 128 bytes of B that lie
    together.
    """

    @kernel(threads=T, where=lambda M, N: M * N < 2**31)
    def sgemm_coalesced(
        A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int
    ):
        with each(thread, C, shape=(M, N)) as (row, column):
            sum: float = 0.0
            for k in range(K):
                sum += A[row, k] * B[k, column]
            C[row, column] = sum

    return sgemm_coalesced


@functools.cache
def blocked(BM=128, BN=128, BK=8, TM=8, TN=8):
    """A block computes BM x BN elements, a thread TM x TN of them.  Tiles of A and B are fetched into shared memory
    once for the whole block, and from there an element goes into registers once for TN (or TM) products.
    """
    ACROSS = BN // TN
    T = BM // TM * ACROSS

    @kernel(threads=T, where=lambda M, N, K, blocks: (1 <= N <= 2**30, M <= 2**30, K <= 2**30, blocks <= 2**23))
    def sgemm_blocked(
        A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int
    ):
        with each(block, C, disjoint=C, shape=(..., (N + BN - 1) / BN)) as (m, n):
            m0, n0 = m * BM, n * BN
            As, Bs = shared(float[BM, BK]), shared(float[BK, BN])
            t: int @ thread[1] = id()
            row, column = t / ACROSS * TM, t % ACROSS * TN
            acc, x, y = registers(float[TM, TN], float[TM], float[TN])
            for k0 in range(0, K, BK):
                with each(thread, As, shape=(..., BK)) as (i, k):
                    for q in unroll(range(BM * BK // T)):
                        at: int = m0 + q * (T // BK) + i
                        As[q * (T // BK) + i, k] = A[at, k0 + k] if at < M and k0 + k < K else 0.0
                with each(thread, Bs):
                    for q in unroll(range(BN * BK // T)):
                        k, j = (q * T + t) / BN, (q * T + t) % BN
                        Bs[k, j] = B[k0 + k, n0 + j] if k0 + k < K and n0 + j < N else 0.0
                for k in range(BK):
                    x = [As[row + i, k] for i in range(TM)]
                    y = [Bs[k, column + j] for j in range(TN)]
                    for i, j in unroll(range(shape=(TM, TN))):
                        acc[i, j] += x[i] * y[j]
            with each(thread, C):
                for i, j in unroll(range(shape=(TM, TN))):
                    if m0 + row + i < M and n0 + column + j < N:
                        C[m0 + row + i, n0 + column + j] = acc[i, j]

    return sgemm_blocked


@functools.cache
def vectorized(WIDTH=4, BM=128, BN=128, BK=8, TM=8, TN=8):
    """As `blocked`, four elements at a time: A, B and C in words of WIDTH elements, which their rows are multiples of;
    and A's tile is turned round on its way into shared memory, so that a thread reads its rows of it as float4, too.
    """
    W = float4 if WIDTH == 4 else float
    ACROSS = BN // TN
    T = BM // TM * ACROSS
    AWORDS, BWORDS = BK // WIDTH, BN // WIDTH

    @kernel(threads=T, where=lambda M, N, K, blocks: (1 <= N <= 2**30, M <= 2**30, K <= 2**30, blocks <= 2**23))
    def sgemm_vectorized(
        A: ptr(const(float), (M, K)), B: ptr(const(float), (K, N)), C: ptr(float, (M, N)), M: int, N: int, K: int
    ):
        with each(block, C.view(W), disjoint=C, shape=(..., (N + BN - 1) / BN)) as (m, n):
            m0, n0 = m * BM, n * BN
            As, Bs = shared(float[BK, BM]), shared(float[BK, BN])
            t: int @ thread[1] = id()
            row, column = t / ACROSS * TM, t % ACROSS * TN
            acc, x, y, word = registers(float[TM, TN], float[TM], float[TN], float[WIDTH])
            for k0 in range(0, K, BK):
                for q in unroll(range(BM * AWORDS // T)):
                    with each(thread, As):
                        i, k = (q * T + t) / AWORDS, (q * T + t) % AWORDS
                        inside: bool = m0 + i < M and k0 / WIDTH + k < K / WIDTH
                        word.view(W)[0] = A.view(W)[m0 + i, k0 / WIDTH + k] if inside else W(0)
                        for e in unroll(range(WIDTH)):
                            As[k * WIDTH + e, i] = word[e]
                for q in unroll(range(BK * BWORDS // T)):
                    with each(thread, Bs.view(W)):
                        k, j = (q * T + t) / BWORDS, (q * T + t) % BWORDS
                        inside: bool = k0 + k < K and n0 / WIDTH + j < N / WIDTH
                        Bs[k, j] = B.view(W)[k0 + k, n0 / WIDTH + j] if inside else W(0)
                for k in unroll(range(BK)):
                    for i in unroll(range(TM // 4)):
                        x.view(float4)[i] = As.view(float4)[k, row / 4 + i]
                    for j in unroll(range(TN // 4)):
                        y.view(float4)[j] = Bs.view(float4)[k, column / 4 + j]
                    for i, j in unroll(range(shape=(TM, TN))):
                        acc[i, j] += x[i] * y[j]
            with each(thread, C):
                for i, j in unroll(range(shape=(TM, TN // WIDTH))):
                    if m0 + row + i < M and (n0 + column) / WIDTH + j < N / WIDTH:
                        C[m0 + row + i, (n0 + column) / WIDTH + j] = acc.view(W)[i, j]

    return sgemm_vectorized
