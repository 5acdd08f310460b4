"""As kernels.py, for groups of rows: of each group the transpose of its rows of A, times its rows of B.

Input:      an element type of 16 bits, sizes of tiles; at a launch, A and B whose rows are multiples of 16 bytes, and
            where groups end: group g is the rows from ends[g - 1] to ends[g].  Ends never fall: one that does is taken
            as the one before
Output:     a kernel: C[g] = A[rows of g].T @ B[rows of g], sums in f32; zeros for a group without rows
Invariant:  any extents, groups of any sizes.  Rows are read where they lie
Non-goals:  bias and activation; other layouts

A box may begin at any row, so the steps of a group begin with it.  What is left of it after its whole steps comes in
boxes of few rows; for those that are not wholly its own come boxes from outside of the matrices, zeros.  Its last few
rows have a slot of their own, in which there are rows of the next group as well: those the threads that multiply set to
zero first, of both matrices, since zero times infinity is no zero.
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib._calls.arrays import MAX_SIDE
from snap.lib._gemm.body import in_bands, multiply, sizes
from snap.lib._gemm.parts import clear

STEP = 64  # rows of a box: those of a swizzled tile of 16-bit elements
FEW = 16  # rows of a box at the end of a group: those of one instruction


@functools.cache
def ragged_kernel(type, BM=128, BN=256, BAND=8):
    """Tiles of BM x BN, in bands of BAND tiles' height, group after group."""
    g = sizes(type, type, BM, BN, False, False, most=8)

    @kernel(
        threads=g.T,
        where=lambda ends, groups, M, N, K, C1, blocks: (
            1 <= M <= MAX_SIDE,
            1 <= N <= min(C1, MAX_SIDE),
            1 <= K <= MAX_SIDE,
            1 <= groups <= len(ends),
            blocks <= 2**16,
            ((M + BM - 1) // BM) * ((N + BN - 1) // BN) * groups <= min(blocks * 2**27, MAX_SIDE - 2**16),
        ),
    )
    def gemm(
        A: ptr(const(g.E), (K, A1)),
        B: ptr(const(g.E), (K, B1)),
        C: ptr(g.E, (groups, M, C1)),
        ends: ptr(const(int)),
        groups: int,
        M: int,
        N: int,
        K: int,
        A1: int,
        B1: int,
        C1: int,
    ):
        teams, down, across = count(block[1]), (M + BM - 1) / BM, (N + BN - 1) / BN
        with each(block, C, disjoint=C) as team:
            A_slots: pipeline(shared(g.E[g.A_PANELS, STEP, g.DEPTH], swizzle=128), g.STAGES)
            B_slots: pipeline(shared(g.E[g.B_PANELS, STEP, g.DEPTH], swizzle=128), g.STAGES)
            A_rest: pipeline(shared(g.E[g.A_PANELS, FEW, g.DEPTH], swizzle=128), 1)
            B_rest: pipeline(shared(g.E[g.B_PANELS, FEW, g.DEPTH], swizzle=128), 1)
            C_slots: pipeline(shared(g.E[g.CONSUMERS, 64, g.WIDE], swizzle=g.C_SWIZZLE), 1)
            w: int @ warpgroup = id()
            me: int @ thread[1] = id()
            acc: float[g.SUMS] @ thread[1]
            compute, load = roles(g.C_THREADS, 128, registers=(232, 40) if g.CONSUMERS == 2 else ())
            group, top, rows = 0, 0, max(min(int(ends[0]), K), 0)  # its first row, and how many it has
            for t in range(team, down * across * groups, teams):
                while t >= (group + 1) * (down * across):
                    group, top = group + 1, top + rows
                    rows = max(min(int(ends[group]), K), top) - top
                i, j = in_bands(t % (down * across), down, across, BAND)
                m0, n0 = i * BM, j * BN
                with compute():
                    acc = 0.0  # for groups without rows; in a condition, it would serialize the products
                for k in range(0, rows / FEW * FEW, STEP):
                    with stage(A_slots) as a, stage(B_slots) as b:
                        with load(a, b):
                            if rows - k >= STEP:
                                async_copy(a, A, at=(top + k, m0))
                                async_copy(b, B, at=(top + k, n0))
                            else:
                                for s in unroll(range(STEP // FEW)):
                                    at: int = top + k + s * FEW if rows - k >= s * FEW + FEW else K
                                    async_copy(tile(a, (0, s * FEW, 0), (g.A_PANELS, FEW, g.DEPTH)), A, at=(at, m0))
                                    async_copy(tile(b, (0, s * FEW, 0), (g.B_PANELS, FEW, g.DEPTH)), B, at=(at, n0))
                        with compute(a, b), each(warpgroup):
                            multiply(g, acc, a, b, w, k, 0)
                if rows % FEW > 0:
                    with stage(A_rest) as a, stage(B_rest) as b:
                        with load(a, b):
                            async_copy(a, A, at=(top + rows / FEW * FEW, m0))
                            async_copy(b, B, at=(top + rows / FEW * FEW, n0))
                        with compute(a, b):
                            clear(g, g.A_PANELS, FEW, a, rows % FEW, me)
                            clear(g, g.B_PANELS, FEW, b, rows % FEW, me)
                            with each(warpgroup):
                                wgmma(acc, a[w].T, b.T, zero=(rows < FEW))
                for q in unroll(range(BN // g.WIDE)):
                    with stage(C_slots) as c, compute(), each(warpgroup, c, C, disjoint=C):
                        store_acc(c[w], acc, first=g.WIDE * q)
                        async_copy(C, c[w], at=(group, m0 + 64 * w, n0 + g.WIDE * q))

    return gemm
