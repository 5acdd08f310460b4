"""As gemm_kernels.py, for products of few rows, which take as long as B takes to load: a tile's columns take the place
of an instruction's 64 rows.

Input:      as gemm_kernels.py; A lies row after row; where k is divided, room for sums of f32, those of a tile for each
            block
Output:     a kernel: C = activation(A @ B + bias), sums in f32
Invariant:  any extents; one cluster a tile.  Sums are added in the order of k: they are the same each time
Non-goals:  speed where A has more rows than a tile

So a tile is as high as A, and hardly anything outside of A is loaded: boxes take longer where they reach out of a
matrix.  With tiles of 64 rows, 1 x 4096 x 4096 took 23 us, and 64 x 4096 x 4096 17 us.
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib.gemm_choice import THIN_STAGES
from snap.lib.gemm_parts import activation_function
from snap.lib.operators import element, scalar

DEPTH = 64  # 16-bit elements of a row of 128 bytes
STRIP = 64  # columns of a warpgroup
SHARED = 108 * 1024  # bytes for stages: a multiprocessor has room for two blocks


@functools.cache
def thin_kernel(type, out_type, B_TURNED, ROWS=8, BN=64, bias_type=None, activation=None, SLICES=1):
    """As gemm_kernel.  The blocks of a cluster multiply a slice of k each, and then each finishes a share of the tile's
    columns.
    """
    E, O, V = element(type), element(out_type), element(bias_type or type)
    CONSUMERS = BN // STRIP  # warpgroups that multiply
    STAGES = min(THIN_STAGES, SHARED // ((ROWS + BN) * DEPTH * scalar(type).bytes))
    OWN = BN // SLICES  # columns that a block finishes
    BIASED, active = bias_type is not None, activation_function(activation)
    T, C_THREADS = 128 * (CONSUMERS + 1), 128 * CONSUMERS

    @kernel(
        threads=T,
        cluster=SLICES,
        where=lambda bias, room, M, N, K, C1, blocks: (
            1 <= M <= 2**30,
            1 <= N <= min(C1, 2**30),
            1 <= K <= 2**30,
            not BIASED or len(bias) >= N,
            blocks == SLICES * ((M + ROWS - 1) // ROWS) * ((N + BN - 1) // BN),
            SLICES == 1 or blocks * (ROWS * BN) <= min(len(room), 2**30),
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
        down, steps = (M + ROWS - 1) / ROWS, (K + DEPTH - 1) / DEPTH
        t: int @ cluster[1] = id()
        with (
            partition(room, p=cluster[1], offset=t * (SLICES * ROWS * BN), disjoint=True) as parts,
            each(cluster, C, disjoint=C),
        ):
            rank: int @ block[1] = id()
            w: int @ warpgroup = id() % (CONSUMERS + 1)
            me: int @ thread[1] = id() % T
            m0, n0 = t % down * ROWS, t / down * BN
            begin, end = rank * steps / SLICES, (rank + 1) * steps / SLICES
            # A thread holds columns column and column + 8, and rows row + 8i and row + 8i + 1.
            column, row = me / 32 * 16 + me % 32 / 4, me % 4 * 2
            compute, load = roles(C_THREADS, 128)
            with each(block, parts, C, disjoint=(parts, C)):
                acc: float[ROWS // 2] @ thread[1]
                A_slots: pipeline(shared(E[ROWS, DEPTH], swizzle=128), STAGES)
                B_slots: pipeline(shared(E[CONSUMERS, 64, 64], swizzle=128), STAGES)
                for k in range(begin, end):
                    with stage(A_slots) as a, stage(B_slots) as b:
                        with load(a, b):
                            async_copy(a, A, at=(m0, k * DEPTH))
                            for p in unroll(range(CONSUMERS)):
                                at: int = n0 + p * STRIP
                                async_copy(b[p], B, at=(at, k * DEPTH) if B_TURNED else (k * DEPTH, at))
                        with compute(a, b), each(warpgroup):
                            if B_TURNED:
                                wgmma(acc, b[w], a, zero=(k == begin))
                            else:
                                wgmma(acc, b[w].T, a, zero=(k == begin))
                with compute(), each(thread, parts, C, disjoint=(parts, C)):
                    for e in unroll(range(ROWS // 2)):
                        i, j = row + 8 * (e / 4) + e % 2, column + 8 * (e / 2 % 2)
                        if SLICES > 1:
                            parts[(rank * ROWS + i) * BN + j] = acc[e]
                        elif m0 + i < M and n0 + j < N:
                            plus = float(bias[n0 + j]) if BIASED else 0.0
                            C[m0 + i, n0 + j] = O(active(acc[e] + plus))
            if SLICES > 1:
                with each(block, C, disjoint=C), each(thread, C, disjoint=C):
                    for e in range(me, ROWS * OWN, T):
                        i, j = e / OWN, rank * OWN + e % OWN
                        if m0 + i < M and n0 + j < N:
                            x: float = parts[i * BN + j]
                            for r in unroll(range(1, SLICES)):
                                x += parts[(r * ROWS + i) * BN + j]
                            if BIASED:
                                x += float(bias[n0 + j])
                            C[m0 + i, n0 + j] = O(active(x))

    return gemm
