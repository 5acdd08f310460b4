"""As gemm_kernels.py, for products of few tiles and many steps: the steps of a tile are dealt out to the blocks of a
cluster, where it has several.

Input:      as gemm_kernels.py, and room for sums of f32: those of a tile for each block.  Of few rows, an A that lies
row after row
Output:     kernels: C = activation(A @ B + bias), sums in f32
Invariant:  any extents; one cluster a tile.  Sums are added in an order that depends on the column alone: they are the
same each time
Non-goals:  products that have a tile for every multiprocessor

A block multiplies a slice of k, and finishes a share of the tile's columns: it gives the sums of the other columns
away, and adds what it is given. Sums go through the L2 cache, and blocks wait for each other once.  From shared memory
to shared memory they took longer (16.7 us instead of 15.0 for 64 x 4096 x 4096): blocks then wait a second time, before
they end.

Products of few rows take as long as B takes to load.  There a tile's columns take the place of an instruction's 64
rows, so a tile is as high as A, and hardly anything outside of A is loaded: boxes take longer where they reach out of a
matrix. With tiles of 64 rows, 1 x 4096 x 4096 took 23 us, and 64 x 4096 x 4096 17 us.
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.lib.gemm_choice import THIN_STAGES
from snap.lib.gemm_parts import activation_function, depth_of, finishing, leaving, multiplying_slices
from snap.lib.operators import element, scalar

SHARED = 224 * 1024  # bytes for stages; tiles leave through the same
MOST_STAGES = 12
THIN_SHARED = 108 * 1024  # a multiprocessor has room for two blocks


@functools.cache
def slices_kernel(type, out_type, A_TURNED, B_TURNED, BM=64, BN=64, BAND=16, bias_type=None, activation=None, SLICES=2):
    """As gemm_kernel.  A block's own columns are the first of its sums, those of the block i further on (after the last
    comes the first) part i. Where parts are whole panels, B's are loaded in this order; else sums are moved when they
    are given away.
    """
    E, O, V = element(type), element(out_type), element(bias_type or type)
    DEPTH = depth_of(type)
    CONSUMERS = BM // 64  # warpgroups that multiply
    OWN = BN // SLICES  # columns that a block finishes
    ORDERS = 1 if B_TURNED or OWN % DEPTH == 0 else SLICES
    STAGES = min(MOST_STAGES, SHARED // ((BM + BN) * DEPTH * scalar(type).bytes))
    WIDE = math.gcd(OWN, 128 // scalar(out_type).bytes)  # columns that leave at a time
    C_SWIZZLE = WIDE * scalar(out_type).bytes
    FINISHED = bias_type is not None or activation is not None
    SUMS = BN // 2  # of a thread
    FEW = SUMS // SLICES  # of a part
    T, C_THREADS = 128 * (CONSUMERS + 1), 128 * CONSUMERS
    multiply_slice = multiplying_slices(type, BM, not A_TURNED, BN, B_TURNED, STAGES, SLICES, PARTS=SLICES)
    finish, leave = finishing(SUMS, OWN, type, bias_type, activation), leaving(type, out_type, SUMS, 64, WIDE)

    @kernel
    @requires(grid[1], cluster[1], block[SLICES], thread[T])
    def gemm(
        A: ptr(const(E), (A0, A1)) @ grid[1],
        B: ptr(const(E), (B0, B1)) @ grid[1],
        C: ptr(O, (M, C1)) @ grid[1],
        bias: ptr(const(V)) @ grid[1],
        A0: int @ grid[1],
        A1: int @ grid[1],
        B0: int @ grid[1],
        B1: int @ grid[1],
        C1: int @ grid[1],
        M: int @ grid[1],
        N: int @ grid[1],
        K: int @ grid[1],
        room: ptr(float) @ grid[1],
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
                    with partition(
                        parts.view(float4),
                        p=thread[1],
                        disjoint=True,
                        f=lambda i, j: (((rank + i) % SLICES * (SLICES - 1) + i - 1) * (FEW // 4) + j) * C_THREADS + me,
                    ) as given_away:
                        with group(block[1]):
                            multiply_slice(acc, A, B, A0, A1, B0, B1, m0, n0, skip, w, rank, steps)
                            match split(thread, C_THREADS):
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
                    with group(block[1]):
                        match split(thread, C_THREADS):
                            case 0:
                                with group(thread[1]):
                                    for j in unroll(range((SUMS - FEW) // 4)):
                                        given.view(float4)[j] = parts.view(float4)[
                                            (rank * ((SLICES - 1) * FEW // 4) + j) * C_THREADS + me
                                        ]
                                    for i in unroll(range(SLICES - 1)):
                                        for j in unroll(range(FEW)):
                                            acc[j] += given[i * FEW + j]
                    if FINISHED:
                        match split(thread, C_THREADS):
                            case 0:
                                with group(thread[1]):
                                    finish(acc, bias, n0 + own + me % 4 * 2, N)
                    C_tiles: shared(O[OWN // WIDE, CONSUMERS, 64, WIDE], swizzle=C_SWIZZLE, across=block)
                    with partition(
                        C_cluster, p=warpgroup, f=lambda i, j: (m0 + 64 * w + i, n0 + own + j), disjoint=True
                    ) as C_own:
                        for q in unroll(range(OWN // WIDE)):
                            with partition(C_tiles, p=warpgroup, f=lambda i, j: (rank, q, w, i, j)) as box:
                                match split(thread, C_THREADS):
                                    case 0:
                                        with group(warpgroup):
                                            leave(C_own, M, C1, box, acc, q, 0, 0)

    return gemm


@functools.cache
def thin_kernel(type, out_type, B_TURNED, ROWS=8, BN=64, bias_type=None, activation=None, SLICES=1):
    """As gemm_kernel.  The blocks of a cluster multiply a slice of k each, and then each finishes a share of the tile's
    columns.
    """
    E, O, V = element(type), element(out_type), element(bias_type or type)
    DEPTH = depth_of(type)
    CONSUMERS = BN // 64  # warpgroups that multiply
    STAGES = min(THIN_STAGES, THIN_SHARED // ((ROWS + BN) * DEPTH * scalar(type).bytes))
    OWN = BN // SLICES  # columns that a block finishes
    BIASED, active = bias_type is not None, activation_function(activation)
    T, C_THREADS = 128 * (CONSUMERS + 1), 128 * CONSUMERS
    multiply_slice = multiplying_slices(type, BN, B_TURNED, ROWS, True, STAGES, SLICES)

    @kernel
    @requires(grid[1], cluster[1], block[SLICES], thread[T])
    def gemm(
        A: ptr(const(E), (A0, A1)) @ grid[1],
        B: ptr(const(E), (B0, B1)) @ grid[1],
        C: ptr(O, (M, C1)) @ grid[1],
        bias: ptr(const(V)) @ grid[1],
        A0: int @ grid[1],
        A1: int @ grid[1],
        B0: int @ grid[1],
        B1: int @ grid[1],
        C1: int @ grid[1],
        M: int @ grid[1],
        N: int @ grid[1],
        K: int @ grid[1],
        room: ptr(float) @ grid[1],
    ):
        with group(grid[1]):
            t: int @ cluster[1] = id()
            down: int = (M + ROWS - 1) / ROWS
            steps: int = (K + DEPTH - 1) / DEPTH
            with (
                partition(C, p=cluster[1], f=lambda i, j: (i, j), disjoint=True) as C_cluster,
                partition(room, p=cluster[1], f=lambda i: t * (SLICES * ROWS * BN) + i, disjoint=True) as parts,
            ):
                with group(cluster[1]):
                    rank: int @ block[1] = id()
                    w: int @ warpgroup = id() % (CONSUMERS + 1)
                    me: int @ thread[1] = id() % T
                    m0: int = t % down * ROWS
                    n0: int = t / down * BN
                    column: int @ thread[1] = me / 32 * 16 + me % 32 / 4  # it holds columns column and column + 8
                    row: int @ thread[1] = me % 4 * 2  # and rows row + 8i and row + 8i + 1
                    with partition(C_cluster, p=thread[1], f=lambda i, j: (m0 + i, n0 + j), disjoint=True) as C_own:
                        with partition(
                            parts, p=thread[1], f=lambda i, j: (rank * ROWS + i) * BN + j, disjoint=True
                        ) as own:
                            with group(block[1]):
                                acc: float[ROWS // 2] @ thread[1]
                                multiply_slice(acc, B, A, B0, B1, A0, A1, n0, m0, 0, w, rank, steps)
                                match split(thread, C_THREADS):
                                    case 0:
                                        with group(thread[1]):
                                            for i in unroll(range(ROWS // 8)):
                                                for v in unroll(range(2)):
                                                    for h in unroll(range(2)):
                                                        if SLICES > 1:
                                                            own[row + 8 * i + h, column + 8 * v] = acc[
                                                                4 * i + 2 * v + h
                                                            ]
                                                        elif m0 + row + 8 * i + h < M and n0 + column + 8 * v < N:
                                                            plus: float = 0.0
                                                            if BIASED:
                                                                plus = float(bias[n0 + column + 8 * v])
                                                            C_own[row + 8 * i + h, column + 8 * v] = O(
                                                                active(acc[4 * i + 2 * v + h] + plus)
                                                            )
                        if SLICES > 1:
                            with group(block[1]):
                                with group(thread[1]):
                                    for e in range(me, ROWS * OWN, T):
                                        i: int = e / OWN
                                        j: int = rank * OWN + e % OWN
                                        if m0 + i < M and n0 + j < N:
                                            x: float = parts[i * BN + j]
                                            for r in unroll(range(1, SLICES)):
                                                x += parts[(r * ROWS + i) * BN + j]
                                            if BIASED:
                                                x += float(bias[n0 + j])
                                            C_own[i, j] = O(active(x))

    return gemm
