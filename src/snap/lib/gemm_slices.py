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
from snap.lib.gemm_parts import activation_function
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
    BIASED, ACTIVE, active = bias_type is not None, activation is not None, activation_function(activation)
    SUMS = BN // 2  # of a thread
    FEW = SUMS // SLICES  # of a part
    T, C_THREADS = 128 * (CONSUMERS + 1), 128 * CONSUMERS

    @kernel(threads=T, cluster=SLICES)
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
        with group(grid[1]):
            t: int @ cluster[1] = id()
            down: int = (M + BM - 1) / BM
            across: int = (N + BN - 1) / BN
            steps: int = (K + DEPTH - 1) / DEPTH
            with (
                partition(C, p=cluster[1], f=lambda i, j: (i, j), disjoint=True) as C_cluster,
                partition(
                    room, p=cluster[1], f=lambda i: t * (SLICES * (SLICES - 1) * FEW * C_THREADS) + i, disjoint=True
                ) as parts,
            ):
                with group(cluster[1]):
                    rank: int @ block[1] = id()
                    w: int @ warpgroup = id() % (CONSUMERS + 1)
                    me: int @ thread[1] = id() % T
                    acc: float[SUMS] @ thread[1]
                    given: float[SUMS - FEW] @ thread[1]
                    band: int = t / (BAND * across)
                    within: int = t % (BAND * across)
                    height: int = min(BAND, down - band * BAND)
                    m0: int = (band * BAND + within % height) * BM
                    n0: int = within / height * BN
                    own: int @ block[1] = rank * OWN  # its first column
                    skip: int @ block[1] = own if ORDERS == 1 else 0
                    begin: int @ block[1] = rank * steps / SLICES
                    end: int @ block[1] = (rank + 1) * steps / SLICES
                    with partition(
                        parts.view(float4),
                        p=thread[1],
                        disjoint=True,
                        f=lambda i, j: (((rank + i) % SLICES * (SLICES - 1) + i - 1) * (FEW // 4) + j) * C_THREADS + me,
                    ) as given_away:
                        with group(block[1]):
                            A_slots: pipeline(shared(E[A_PANELS, A_ROWS, DEPTH], swizzle=128), STAGES)
                            B_slots: pipeline(shared(E[B_PANELS, B_ROWS, DEPTH], swizzle=128), STAGES)
                            for k in range(begin, end):
                                with stage(A_slots) as a, stage(B_slots) as b:
                                    with claim(a, p=thread[128]) as ap, claim(b, p=thread[128]) as bp:
                                        match split(thread, C_THREADS, 128):
                                            case 0:
                                                pass
                                            case 1:
                                                if A_TURNED:
                                                    for p in unroll(range(A_PANELS)):
                                                        async_copy(
                                                            tile(ap, (p, 0, 0), (1, A_ROWS, DEPTH)),
                                                            A,
                                                            at=(k * DEPTH, m0 + p * PANEL),
                                                        )
                                                else:
                                                    async_copy(ap, A, at=(m0, k * DEPTH))
                                                if B_TURNED:
                                                    for i in unroll(range(SLICES)):
                                                        at: int = n0 + (skip + i * OWN) % BN
                                                        async_copy(
                                                            tile(bp, (0, i * OWN, 0), (1, OWN, DEPTH)),
                                                            B,
                                                            at=(at, k * DEPTH),
                                                        )
                                                else:
                                                    for p in unroll(range(B_PANELS)):
                                                        at: int = n0 + (skip + p * PANEL) % BN
                                                        async_copy(
                                                            tile(bp, (p, 0, 0), (1, DEPTH, PANEL)),
                                                            B,
                                                            at=(k * DEPTH, at),
                                                        )
                                    with claim(a, p=thread[C_THREADS]) as ac, claim(b, p=thread[C_THREADS]) as bc:
                                        match split(thread, C_THREADS, 128):
                                            case 0:
                                                with group(warpgroup):
                                                    if A_TURNED and B_TURNED:
                                                        wgmma(
                                                            acc,
                                                            tile(ac, (w, 0, 0), (1, DEPTH, 64)).T,
                                                            bc,
                                                            zero=(k == begin),
                                                        )
                                                    elif A_TURNED:
                                                        wgmma(
                                                            acc,
                                                            tile(ac, (w, 0, 0), (1, DEPTH, 64)).T,
                                                            bc.T,
                                                            zero=(k == begin),
                                                        )
                                                    elif B_TURNED:
                                                        wgmma(
                                                            acc,
                                                            tile(ac, (0, 64 * w, 0), (1, 64, DEPTH)),
                                                            bc,
                                                            zero=(k == begin),
                                                        )
                                                    else:
                                                        wgmma(
                                                            acc,
                                                            tile(ac, (0, 64 * w, 0), (1, 64, DEPTH)),
                                                            bc.T,
                                                            zero=(k == begin),
                                                        )
                                            case 1:
                                                pass
                            match split(thread, C_THREADS, 128):
                                case 0:
                                    with group(thread[1]):
                                        for r in unroll(range(ORDERS)):
                                            if ORDERS == 1 or rank == r:
                                                for i in unroll(range(1, SLICES)):
                                                    for j in unroll(range(FEW // 4)):
                                                        given_away[i, j] = acc.view(float4)[
                                                            (r + i) % SLICES * (FEW // 4) + j
                                                        ]
                                                if r > 0:
                                                    for j in unroll(range(FEW)):
                                                        acc[j] = acc[r * FEW + j]
                                case 1:
                                    pass
                    with group(block[1]):
                        match split(thread, C_THREADS, 128):
                            case 0:
                                with group(thread[1]):
                                    for j in unroll(range((SUMS - FEW) // 4)):
                                        given.view(float4)[j] = parts.view(float4)[
                                            (rank * ((SLICES - 1) * FEW // 4) + j) * C_THREADS + me
                                        ]
                                    for i in unroll(range(SLICES - 1)):
                                        for j in unroll(range(FEW)):
                                            acc[j] += given[i * FEW + j]
                            case 1:
                                pass
                    if BIASED or ACTIVE:
                        match split(thread, C_THREADS, 128):
                            case 0:
                                with group(thread[1]):
                                    pair: int = (
                                        n0 + own + me % 4 * 2
                                    )  # it holds columns pair + 8j and pair + 8j + 1 of two rows
                                    for j in unroll(range(OWN // 8)):
                                        for h in unroll(range(2)):
                                            plus: float = 0.0
                                            if BIASED:
                                                if pair + 8 * j + h < N:
                                                    plus = float(bias[pair + 8 * j + h])
                                            for v in unroll(range(2)):
                                                acc[4 * j + 2 * v + h] = active(acc[4 * j + 2 * v + h] + plus)
                            case 1:
                                pass
                    C_tiles: shared(O[OWN // WIDE, CONSUMERS, 64, WIDE], swizzle=C_SWIZZLE, across=block)
                    with partition(
                        C_cluster, p=warpgroup, f=lambda i, j: (m0 + 64 * w + i, n0 + own + j), disjoint=True
                    ) as C_own:
                        with partition(C_tiles, p=warpgroup, f=lambda q, i, j: (rank, q, w, i, j)) as leaving:
                            match split(thread, C_THREADS, 128):
                                case 0:
                                    with group(warpgroup):
                                        for q in unroll(range(OWN // WIDE)):
                                            store_acc(tile(leaving, (q, 0, 0), (1, 64, WIDE)), acc, first=WIDE * q)
                                            async_copy(C_own, tile(leaving, (q, 0, 0), (1, 64, WIDE)), at=(0, WIDE * q))
                                case 1:
                                    pass

    return gemm
