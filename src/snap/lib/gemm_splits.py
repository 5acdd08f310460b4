"""As gemm_slices.py, where the blocks that share a tile are anywhere on the GPU: as many slices as fill it.

Input:      as gemm_slices.py; room for sums of f32, those of a tile for each block; a counter for each thread of a
            tile, all of them zero
Output:     a kernel: C = activation(A @ B + bias), sums in f32
Invariant:  any extents; all blocks run at the same time, one tile for SLICES of them.  Sums are added in an order that
            depends on the column alone: they are the same each time.  Counters are zero again in the end
Non-goals:  products of two slices a tile, for which clusters wait for each other faster

Clusters of four blocks leave multiprocessors without any, and 32 tiles of four slices do not fit: 128 x 4096 x 14336
and 1024 x 1024 x 8192 are such products.  Threads meet, not blocks: what a thread gives away is taken by the threads in
its place, which count on one word, first that they have given, then that they have taken.
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.lib.gemm_parts import finishing, multiplying
from snap.lib.gemm_slices import DEPTH, MOST_STAGES, PANEL, SHARED
from snap.lib.operators import element, scalar


@functools.cache
def splits_kernel(
    type, out_type, A_TURNED, B_TURNED, BM=128, BN=128, BAND=8, bias_type=None, activation=None, SLICES=4
):
    """As slices_kernel."""
    E, O, V = element(type), element(out_type), element(bias_type or type)
    CONSUMERS = BM // 64  # warpgroups that multiply
    OWN = BN // SLICES  # columns that a block finishes
    ORDERS = 1 if B_TURNED or OWN % PANEL == 0 else SLICES
    A_PANELS, A_ROWS = (BM // PANEL, DEPTH) if A_TURNED else (1, BM)
    B_PANELS, B_ROWS = (1, BN) if B_TURNED else (BN // PANEL, DEPTH)
    STAGES = min(MOST_STAGES, SHARED // ((BM + BN) * DEPTH * scalar(type).bytes))
    WIDE = math.gcd(OWN, 128 // scalar(out_type).bytes)  # columns that leave at a time
    C_SWIZZLE = WIDE * scalar(out_type).bytes
    FINISHED = bias_type is not None or activation is not None
    SUMS = BN // 2  # of a thread
    FEW = SUMS // SLICES  # of a part
    T, C_THREADS = 128 * (CONSUMERS + 1), 128 * CONSUMERS
    B_PARTS, B_WIDE = (SLICES, OWN) if B_TURNED else (B_PANELS, PANEL)  # boxes of B a step, and their columns
    multiply = multiplying(type, BM, not A_TURNED, BN, B_TURNED)
    finish = finishing(SUMS, OWN, type, bias_type, activation)

    @kernel(threads=T, cooperative=True)
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
        met: ptr(int),
    ):
        down: int = (M + BM - 1) / BM
        across: int = (N + BN - 1) / BN
        steps: int = (K + DEPTH - 1) / DEPTH
        b: int @ block[1] = id()
        t: int @ block[1] = b / SLICES
        rank: int @ block[1] = b % SLICES
        w: int @ warpgroup = id() % (CONSUMERS + 1)
        me: int @ thread[1] = id() % T
        acc: float[SUMS] @ thread[1]
        given: float[SUMS - FEW] @ thread[1]
        band: int @ block[1] = t / (BAND * across)
        within: int @ block[1] = t % (BAND * across)
        height: int @ block[1] = min(BAND, down - band * BAND)
        m0: int @ block[1] = (band * BAND + within % height) * BM
        n0: int @ block[1] = within / height * BN
        own: int @ block[1] = rank * OWN  # its first column
        skip: int @ block[1] = own if ORDERS == 1 else 0
        begin: int @ block[1] = rank * steps / SLICES
        end: int @ block[1] = (rank + 1) * steps / SLICES
        with each(block):
            compute, load = roles(C_THREADS, 128)
            A_slots: pipeline(shared(E[A_PANELS, A_ROWS, DEPTH], swizzle=128), STAGES)
            B_slots: pipeline(shared(E[B_PANELS, B_ROWS, DEPTH], swizzle=128), STAGES)
            for k in range(begin, end):
                with stage(A_slots) as a, stage(B_slots) as c:
                    with load(a, c):
                        if A_TURNED:
                            async_copy(a, A, at=(k * DEPTH, m0))
                        else:
                            async_copy(a, A, at=(m0, k * DEPTH))
                        for p in unroll(range(B_PARTS)):
                            at: int = n0 + (skip + p * B_WIDE) % BN
                            if B_TURNED:
                                async_copy(tile(c, (0, p * OWN, 0), (1, OWN, DEPTH)), B, at=(at, k * DEPTH))
                            else:
                                async_copy(c[p], B, at=(k * DEPTH, at))
                    with compute(a, c), each(warpgroup):
                        multiply(acc, a, c, w, k, begin)
            with compute(), each(thread):
                # Part i - 1 of what a block is given comes from the block i before it.
                for r in unroll(range(ORDERS)):
                    if ORDERS == 1 or rank == r:
                        for i in unroll(range(1, SLICES)):
                            to: int = ((t * SLICES + (rank + i) % SLICES) * (SLICES - 1) + i - 1) * FEW
                            for j in unroll(range(FEW)):
                                atomic.store(room, (to + j) * C_THREADS + me, acc[(r + i) % SLICES * FEW + j])
                        if r > 0:
                            for j in unroll(range(FEW)):
                                acc[j] = acc[r * FEW + j]
                atomic.add(met, t * C_THREADS + me, 1, order="acq_rel")
                while atomic.load(met, t * C_THREADS + me, order="acquire") < SLICES:
                    pass
                for j in unroll(range(SUMS - FEW)):
                    given[j] = atomic.load(room, (b * (SUMS - FEW) + j) * C_THREADS + me)
                for i in unroll(range(SLICES - 1)):
                    for j in unroll(range(FEW)):
                        acc[j] += given[i * FEW + j]
                if atomic.add(met, t * C_THREADS + me, 1, order="acq_rel") == 2 * SLICES - 1:
                    atomic.store(met, t * C_THREADS + me, 0)
        with each(block, C, disjoint=C):
            compute, rest = roles(C_THREADS, 128)
            if FINISHED:
                with compute(), each(warp):
                    finish(acc, bias, n0 + own, N)
            C_tiles: shared(O[OWN // WIDE, CONSUMERS, 64, WIDE], swizzle=C_SWIZZLE)
            with compute(), each(warpgroup, C_tiles, C, disjoint=C):
                for q in unroll(range(OWN // WIDE)):
                    store_acc(C_tiles[q, w], acc, first=WIDE * q)
                    async_copy(C, C_tiles[q, w], at=(m0 + 64 * w, n0 + own + WIDE * q))

    return gemm
