"""As gemm_kernels.py, with clusters: two blocks, whose tiles lie one above the other, each load half of B's tile for both.

Input:      as gemm_kernels.py; the number of blocks is even
Output:     a kernel: C = activation(A @ B + bias), sums in f32
Invariant:  any extents.  A cluster takes pairs of tiles c, c + clusters, ... of the order of gemm_kernels.py
Non-goals:  large products of whole rows: there a multiprocessor multiplies all the time already, and blocks that wait for each other do so less often

Half as many rows of B are asked for.  That counts where rows do not begin at multiples of 32 bytes: each costs more than twice as much.
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.lib.gemm_kernels import DEPTH, PANEL, SHARED, activation_function
from snap.lib.operators import element, scalar

PAIR = 2  # blocks of a cluster


@functools.cache
def cluster_kernel(type, out_type, A_TURNED, B_TURNED, BM=64, BN=128, BAND=8, bias_type=None, activation=None):
    """As gemm_kernel; bands are BAND pairs of tiles high."""
    E, O, V = element(type), element(out_type), element(bias_type or type)
    CONSUMERS = BM // 64  # warpgroups that multiply
    A_PANELS, A_ROWS = (BM // PANEL, DEPTH) if A_TURNED else (1, BM)
    B_PANELS, B_ROWS, B_WIDE = (1, BN, DEPTH) if B_TURNED else (BN // math.gcd(BN, PANEL), DEPTH, math.gcd(BN, PANEL))
    STAGES = min(8, SHARED // ((BM + BN) * DEPTH * scalar(type).bytes))
    WIDE = math.gcd(BN, 128 // scalar(out_type).bytes)  # columns that leave at a time
    B_SWIZZLE, C_SWIZZLE = B_WIDE * scalar(type).bytes, WIDE * scalar(out_type).bytes
    BIASED, ACTIVE, active = bias_type is not None, activation is not None, activation_function(activation)
    T, C_THREADS = 128 * (CONSUMERS + 1), 128 * CONSUMERS

    @kernel
    @requires(grid[1], cluster[1], block[PAIR], thread[T])
    def gemm(A: ptr(const(E), (A0, A1)) @ grid[1], B: ptr(const(E), (B0, B1)) @ grid[1], C: ptr(O, (M, C1)) @ grid[1],
             bias: ptr(const(V)) @ grid[1], A0: int @ grid[1], A1: int @ grid[1], B0: int @ grid[1], B1: int @ grid[1],
             C1: int @ grid[1], M: int @ grid[1], N: int @ grid[1], K: int @ grid[1]):
        with group(grid[1]):
            c0: int @ cluster[1] = id()
            clusters: int = count(cluster[1])
            down: int = (M + PAIR * BM - 1) / (PAIR * BM)
            across: int = (N + BN - 1) / BN
            with partition(C, p=cluster[1], f=lambda i, j: (i, j), disjoint=True) as C_cluster:
                with group(cluster[1]):
                    A_slots: pipeline(shared(E[A_PANELS, A_ROWS, DEPTH], swizzle=128, across=block), STAGES)
                    B_slots: pipeline(shared(E[B_PANELS, B_ROWS, B_WIDE], swizzle=B_SWIZZLE, copies=block), STAGES)
                    C_slots: pipeline(shared(O[CONSUMERS, 64, WIDE], swizzle=C_SWIZZLE, across=block), 2)
                    rank: int @ block[1] = id()
                    w: int @ warpgroup = id() % (CONSUMERS + 1)
                    me: int @ thread[1] = id()
                    acc: float[BN // 2] @ thread[1]
                    if CONSUMERS == 2:
                        match split(thread, C_THREADS, 128):
                            case 0:
                                intrinsic.setmaxnreg(232)
                            case 1:
                                intrinsic.setmaxnreg(40)
                    for t in range(c0, down * across, clusters):
                        band: int = t / (BAND * across)
                        within: int = t % (BAND * across)
                        height: int = min(BAND, down - band * BAND)
                        m0: int @ block[1] = (band * BAND + within % height) * (PAIR * BM) + rank * BM
                        n0: int = within / height * BN
                        for k in range((K + DEPTH - 1) / DEPTH):
                            with stage(A_slots) as a, stage(B_slots) as b:
                                with claim(a, p=thread[128]) as ap, claim(b, p=thread[128]) as bp:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            if A_TURNED:
                                                for p in unroll(range(A_PANELS)):
                                                    async_copy(tile(ap, (p, 0, 0), (1, A_ROWS, DEPTH)), A, at=(k * DEPTH, m0 + p * PANEL))
                                            else:
                                                async_copy(ap, A, at=(m0, k * DEPTH))
                                            if B_TURNED:
                                                async_copy(bp, B, at=(n0, k * DEPTH))
                                            else:
                                                for p in unroll(range(B_PANELS)):
                                                    async_copy(tile(bp, (p, 0, 0), (1, B_ROWS, B_WIDE)), B, at=(k * DEPTH, n0 + p * B_WIDE))
                                with claim(a, p=thread[C_THREADS]) as ac, claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            with group(warpgroup):
                                                if A_TURNED and B_TURNED:
                                                    wgmma(acc, tile(ac, (w, 0, 0), (1, DEPTH, 64)).T, bc, zero=(k == 0))
                                                elif A_TURNED:
                                                    wgmma(acc, tile(ac, (w, 0, 0), (1, DEPTH, 64)).T, bc.T, zero=(k == 0))
                                                elif B_TURNED:
                                                    wgmma(acc, tile(ac, (0, 64 * w, 0), (1, 64, DEPTH)), bc, zero=(k == 0))
                                                else:
                                                    wgmma(acc, tile(ac, (0, 64 * w, 0), (1, 64, DEPTH)), bc.T, zero=(k == 0))
                                        case 1:
                                            pass
                        if BIASED or ACTIVE:
                            match split(thread, C_THREADS, 128):
                                case 0:
                                    with group(thread[1]):
                                        pair: int = n0 + me % 4 * 2  # it holds columns pair + 8j and pair + 8j + 1 of two rows
                                        for j in unroll(range(BN // 8)):
                                            for h in unroll(range(2)):
                                                plus: float = 0.0
                                                if BIASED:
                                                    if pair + 8 * j + h < N:
                                                        plus = float(bias[pair + 8 * j + h])
                                                for v in unroll(range(2)):
                                                    acc[4 * j + 2 * v + h] = active(acc[4 * j + 2 * v + h] + plus)
                                case 1:
                                    pass
                        with partition(C_cluster, p=warpgroup, f=lambda i, j: (m0 + 64 * w + i, n0 + j), disjoint=True) as C_own:
                            for q in unroll(range(BN // WIDE)):
                                with stage(C_slots) as c:
                                    with partition(c, p=warpgroup, f=lambda i, j: (rank, w, i, j)) as own:
                                        match split(thread, C_THREADS, 128):
                                            case 0:
                                                with group(warpgroup):
                                                    store_acc(own, acc, first=WIDE * q)
                                                    async_copy(C_own, own, at=(0, WIDE * q))
                                            case 1:
                                                pass

    return gemm
