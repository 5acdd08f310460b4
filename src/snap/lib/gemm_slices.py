"""As gemm_kernels.py, for products of few tiles and many steps: the steps of a tile are dealt out to the blocks of a
cluster.

Input:      as gemm_kernels.py, and room for sums of f32: those of a tile for each block
Output:     a kernel: C = activation(A @ B + bias), sums in f32
Invariant:  any extents; one cluster a tile.  Sums are added in an order that depends on the column alone: they are the
same each time
Non-goals:  products that have a tile for every multiprocessor

A block multiplies a slice of k, and finishes a share of the tile's columns: it gives the sums of the other columns
away, and adds what it is given. Sums go through the L2 cache, and blocks wait for each other once.  From shared memory
to shared memory they took longer (16.7 us instead of 15.0 for 64 x 4096 x 4096): blocks then wait a second time, before
they end.

Its main loop is its own, not one that it shares with gemm_thin.py through a device function: shared, it took 4% to 11%
longer (64 x 4096 x 14336: 96% of cuBLAS instead of 106%).
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.lib.gemm_parts import finishing, multiplying
from snap.lib.operators import element, scalar

DEPTH = PANEL = 64  # 16-bit elements of a row of 128 bytes
SHARED = 224 * 1024  # bytes for stages; tiles leave through the same
MOST_STAGES = 12


@functools.cache
def slices_kernel(type, out_type, A_TURNED, B_TURNED, BM=64, BN=64, BAND=16, bias_type=None, activation=None, SLICES=2):
    """As gemm_kernel.  A block's own columns are the first of its sums, those of the block i further on (after the last
    comes the first) part i. Where parts are whole panels, B's are loaded in this order; else sums are moved when they
    are given away.
    """
    E, O, V = element(type), element(out_type), element(bias_type or type)
    CONSUMERS = BM // 64  # warpgroups that multiply
    OWN = BN // SLICES  # columns that a block finishes
    ORDERS = 1 if B_TURNED or OWN % PANEL == 0 else SLICES
    A_PANELS, A_ROWS = (BM // PANEL, DEPTH) if A_TURNED else (1, BM)
    B_PANELS, B_ROWS = (1, BN) if B_TURNED else (BN // PANEL, DEPTH)
    STAGES = min(MOST_STAGES, SHARED // ((BM + BN) * DEPTH * scalar(type).bytes))
    WIDE = math.gcd(OWN, 128 // scalar(out_type).bytes)  # columns that leave at a time
    C_SWIZZLE = WIDE * scalar(out_type).bytes
    BIASED = bias_type is not None
    FINISHED = BIASED or activation is not None
    SUMS = BN // 2  # of a thread
    FEW = SUMS // SLICES  # of a part
    T, C_THREADS = 128 * (CONSUMERS + 1), 128 * CONSUMERS
    B_PARTS, B_WIDE = (SLICES, OWN) if B_TURNED else (B_PANELS, PANEL)  # boxes of B a step, and their columns
    multiply = multiplying(type, BM, not A_TURNED, BN, B_TURNED)
    finish = finishing(SUMS, OWN, type, bias_type, activation)

    @kernel(
        threads=T,
        cluster=SLICES,
        where=lambda bias, room, M, N, K, C1, blocks: (
            1 <= M <= 2**30,
            1 <= N <= min(C1, 2**30),
            1 <= K <= 2**30,
            not BIASED or len(bias) >= N,
            blocks == SLICES * ((M + BM - 1) // BM) * ((N + BN - 1) // BN),
            blocks * ((SLICES - 1) * BM * OWN) <= min(len(room), 2**30),
        ),
    )
    def gemm(
        A: ptr(const(E), (A0, A1)),
        B: ptr(const(E), (B0, B1)),
        C: ptr(O, (M, C1)),
        bias: ptr(const(V)),
        A0: int,
        A1: int,
        B0: int,
        B1: int,
        C1: int,
        M: int,
        N: int,
        K: int,
        room: ptr(float),
    ):
        down, across, steps = (M + BM - 1) / BM, (N + BN - 1) / BN, (K + DEPTH - 1) / DEPTH
        t: int @ cluster[1] = id()
        with (
            partition(room, p=cluster[1], offset=t * (SLICES * (SLICES - 1) * FEW * C_THREADS), disjoint=True) as parts,
            each(cluster, C, disjoint=C),
        ):
            rank: int @ block[1] = id()
            w: int @ warpgroup = id() % (CONSUMERS + 1)
            me: int @ thread[1] = id() % T
            acc, given = registers(float[SUMS], float[SUMS - FEW])
            compute, load = roles(C_THREADS, 128, registers=(152, 56) if CONSUMERS == 3 else ())
            band, within = t / (BAND * across), t % (BAND * across)
            height: int = min(BAND, down - band * BAND)
            m0, n0 = (band * BAND + within % height) * BM, within / height * BN
            own, skip = rank * OWN, rank * OWN if ORDERS == 1 else 0  # its first column
            begin, end = rank * steps / SLICES, (rank + 1) * steps / SLICES
            with each(block, parts.view(float4), disjoint=parts):
                A_slots: pipeline(shared(E[A_PANELS, A_ROWS, DEPTH], swizzle=128), STAGES)
                B_slots: pipeline(shared(E[B_PANELS, B_ROWS, DEPTH], swizzle=128), STAGES)
                for k in range(begin, end):
                    with stage(A_slots) as a, stage(B_slots) as b:
                        with load(a, b):
                            async_copy(a, A, at=(k * DEPTH, m0) if A_TURNED else (m0, k * DEPTH))
                            for p in unroll(range(B_PARTS)):
                                at: int = n0 + (skip + p * B_WIDE) % BN
                                if B_TURNED:
                                    async_copy(tile(b, (0, p * OWN, 0), (1, OWN, DEPTH)), B, at=(at, k * DEPTH))
                                else:
                                    async_copy(b[p], B, at=(k * DEPTH, at))
                        with compute(a, b), each(warpgroup):
                            multiply(acc, a, b, w, k, begin)
                with compute(), each(thread, parts, disjoint=parts):
                    for r in unroll(range(ORDERS)):
                        if ORDERS == 1 or rank == r:
                            for i in unroll(range(1, SLICES)):
                                to: int = ((rank + i) % SLICES * (SLICES - 1) + i - 1) * (FEW // 4)
                                for j in unroll(range(FEW // 4)):
                                    parts[(to + j) * C_THREADS + me] = acc.view(float4)[
                                        (r + i) % SLICES * (FEW // 4) + j
                                    ]
                            if r > 0:
                                for j in unroll(range(FEW)):
                                    acc[j] = acc[r * FEW + j]
            with each(block), compute(), each(thread):
                for j in unroll(range((SUMS - FEW) // 4)):
                    given.view(float4)[j] = parts.view(float4)[(rank * ((SLICES - 1) * FEW // 4) + j) * C_THREADS + me]
                for i, j in unroll(range(shape=(SLICES - 1, FEW))):
                    acc[j] += given[i * FEW + j]
            if FINISHED:
                with compute(), each(warp):
                    finish(acc, bias, n0 + own, N)
            C_tiles: shared(O[OWN // WIDE, CONSUMERS, 64, WIDE], swizzle=C_SWIZZLE, across=block)
            with compute(), each(warpgroup, C_tiles, C, disjoint=C):
                for q in unroll(range(OWN // WIDE)):
                    store_acc(C_tiles[rank, q, w], acc, first=WIDE * q)
                    async_copy(C, C_tiles[rank, q, w], at=(m0 + 64 * w, n0 + own + WIDE * q))

    return gemm
