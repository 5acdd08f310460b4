"""`snap.lib.sgemm`: a product of f32 matrices on the ordinary arithmetic units, without tensor cores.  The last rung of
a ladder (sgemm_ladder.py).

Input:      a of M x K, b of K x N, both f32, and a factor
Output:     alpha * (a @ b) of M x N; products and sums in f32
Invariant:  memory beyond the arrays is not touched: rows and columns beyond the last are read as the last and not
            written, and what is left of K after whole tiles is read where it lies.  The same matrices give the same
            bits: slices of K are added one after the other
Non-goals:  tensor cores (gemm, gemm_tf32); adding to what is there
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.types import F32
from snap.lib._calls.arrays import argument, number
from snap.lib._calls.public_types import ArrayT
from snap.lib._calls.recorded import launch, recorded
from snap.lib._gemm.arrays import matrix, product_shape, row_major
from snap.lib._gemm.choice import SIMPLE, Plan, Product, best, candidates
from snap.lib._gemm.sgemm_ladder import blocks_of_tiles

# tiles are taken in bands of so many rows of them, column by column: blocks that run together share rows and columns
BAND = 8
# slots of a tile.  Two are enough, but with an even number NVRTC 13.0 moves every sum to another register once a tile
STAGES = 3
ADDERS = 128  # threads of a block that adds slices


@recorded
def sgemm(a: ArrayT, b: ArrayT, alpha: float = 1.0) -> ArrayT:
    """Compute `alpha * (a @ b)` for f32 matrices. Matrices that are not row-major are copied first."""
    left, right = matrix("sgemm", "a", a), matrix("sgemm", "b", b)
    rows, columns = product_shape("sgemm", left, right)
    depth, alpha = left.shape[1], number("sgemm", "alpha", alpha, F32)
    out = left.new((rows, columns), zero=depth == 0)
    if rows * columns * depth == 0:
        return out
    left, right = row_major(left), row_major(right)
    width = 4 if min(right.width(columns), argument("sgemm", "out", out, (F32,)).width(columns)) == 4 else 1
    plan = planned(Product(rows, columns, depth, left.multiprocessors()))
    height, wide = plan.height, plan.width
    tile, rest = TILES[height, wide], blocks_of_tiles(rows, columns, height, wide) - plan.whole
    sums = left.new((max(rest * plan.slices * height * wide, 4),))  # never empty: a launch needs an address
    slices_known = rest > 0 or tile != LARGE  # small tiles have one kernel for both: knowing slices costs it nothing
    run = warp_tiled(*tile, STAGES, width, slices_known)
    blocks = plan.whole + rest * plan.slices
    launch(run, blocks, left.array, right.array, out, rows, columns, depth, alpha, sums, plan.whole, plan.slices)
    if rest:
        blocks = -(-rest * height * wide // (width * ADDERS))
        launch(added(height, wide, width), blocks, sums, out, rows, columns, alpha, plan.whole, plan.slices)
    return out


# ---- who computes what ----------------------------------------------------------------------------------------------

# Tiles of gemm_choice.SIMPLE: rows, columns, depth; rows and columns of a thread.
LARGE, WIDE, SMALL = (128, 256, 16, 16, 8), (64, 128, 16, 8, 8), (64, 64, 32, 8, 4)
LOW, LOWEST, NARROW = (32, 128, 32, 8, 4), (16, 128, 32, 4, 8), (128, 32, 32, 8, 4)
TILES = {tile[:2]: tile for tile in (LARGE, WIDE, SMALL, LOW, LOWEST, NARROW)}


@functools.lru_cache(4096)
def planned(product: Product) -> Plan:
    return best(candidates(SIMPLE, product))


# ---- kernels --------------------------------------------------------------------------------------------------------


@functools.cache
def warp_tiled(BM, BN, BK, TM, TN, STAGES, WIDTH, SLICED=False, GROUP=BAND):
    """While one tile is multiplied the next comes by asynchronous copies, in STAGES slots.  B and C are moved in
    words of WIDTH elements.

    The copies are issued a few at a time, between the products: in one burst they would stand before the reads of
    shared memory.  After the last tile its copies are made once more, into a slot that nobody reads: a condition would
    cut the loop into pieces.

    A thread has TM x TN results, in groups of four: 4 lanes of a warp lie below each other and 8 beside each other, so
    a read of shared memory is one float4 a lane, no two different ones in one bank.  Lanes that read the same word are
    neighbors (lane ^ 1 or lane ^ 2), which the hardware serves together.  The tile of A is turned round as it is
    copied; its rows are padded by one word, so that what a warp copies goes to different banks.

    The products go through y and back again, so that each shares a factor with the one before: of the three registers
    an instruction reads two come from the register file, which has one from its even and one from its odd half at a
    time.  `alpha` leaves the compiler free to keep a sum in the other half than the column's y: in a float4 that is
    stored as it is, it would be in the same.

    SLICED: tiles from number `whole` on are computed by `slices` blocks each, which leave the sums of their part of K
    in P, a tile after the other.
    """
    W = float4 if WIDTH == 4 else float
    ROWS, COLUMNS = 4 * TM, 8 * TN  # of a warp
    ACROSS = BN // COLUMNS
    T = BM // ROWS * ACROSS * 32
    WORDS = BN // WIDTH  # a row of B's tile
    ASTEP, BSTEP = T // BK, max(1, T // WORDS)  # rows that the block copies at a time
    BACROSS = max(1, WORDS // T)  # copies that a row of B takes
    ACOPIES, BCOPIES = BM // ASTEP, BK // BSTEP * BACROSS  # of a thread, a tile
    POINTS = min(4, ACOPIES, BCOPIES)  # places between the products where copies are issued
    AEACH, BEACH, STEPS = (
        ACOPIES // POINTS,
        BCOPIES // POINTS,
        BK // POINTS,
    )  # copies there, and the depth that is multiplied after them
    PARTS = 4 // WIDTH  # words a float4

    @kernel(
        threads=T,
        where=lambda P, M, N, K, whole, slices, blocks: (
            1 <= M <= 2**30,
            1 <= N <= 2**30,
            N % WIDTH == 0,
            0 <= K <= 2**30,
            SLICED or blocks == ((M + BM - 1) // BM) * ((N + BN - 1) // BN),
            not SLICED or 0 <= whole <= ((M + BM - 1) // BM) * ((N + BN - 1) // BN),
            not SLICED or blocks == whole + (((M + BM - 1) // BM) * ((N + BN - 1) // BN) - whole) * slices,
            blocks <= 2**24,
            slices >= 1,
            not SLICED or len(P) >= (blocks - whole) * (BM * BN),
        ),
    )
    def sgemm(
        A: ptr(const(float), (M, K)),
        B: ptr(const(float), (K, N)),
        C: ptr(float, (M, N)),
        M: int,
        N: int,
        K: int,
        alpha: float,
        P: ptr(float),
        whole: int,
        slices: int,
    ):
        across, down = (N + BN - 1) / BN, (M + BM - 1) / BM
        with each(block, C.view(W), P.view(float4), disjoint=(C, P)) as number:
            piece = number - whole if SLICED else -1
            slice, place = max(piece, 0) % slices, number if piece < 0 else whole + piece / slices
            band, within = place / (across * GROUP), place % (across * GROUP)
            height: int = min(GROUP, down - band * GROUP)
            m0, n0 = (band * GROUP + within % height) * BM, within / height * BN
            first, last, rest = 0, K / BK, K / BK * BK
            if SLICED and piece >= 0:
                first, last = int(i64(K / BK) * slice / slices), int(i64(K / BK) * (slice + 1) / slices)
                rest = rest if slice == slices - 1 else K
            As, Bs = pipeline(shared(float[BK, BM + 4]), STAGES), pipeline(shared(float[BK, BN]), STAGES)
            t, w = ids(thread, warp)
            row, column = w / ACROSS * TM + t % 2 + t % 32 / 16 * 2, w % ACROSS * (2 * TN) + t % 16 / 2
            arow: int[ACOPIES] @ thread[1] = [min(m0 + t / BK + q * ASTEP, M - 1) for q in range(ACOPIES)]
            bcolumn: int[BACROSS] @ thread[1] = [
                min(n0 / WIDTH + t % WORDS + q * T, N / WIDTH - 1) for q in range(BACROSS)
            ]
            acc, x, y = registers(float[TM, TN], float[TM], float[TN])
            steps: int = last - first
            if steps > 0:
                with stage(As, 0) as a, stage(Bs, 0) as b, each(thread, a, b.view(W)):
                    for q in unroll(range(ACOPIES)):
                        async_copy(a[t % BK, q * ASTEP + t / BK], A[arow[q], first * BK + t % BK])
                    for q in unroll(range(BCOPIES)):
                        async_copy(
                            b[q / BACROSS * BSTEP + t / WORDS, q % BACROSS * T + t % WORDS],
                            B.view(W)[first * BK + q / BACROSS * BSTEP + t / WORDS, bcolumn[q % BACROSS]],
                        )
                for k in range(steps):
                    k0: int = (first + min(k + 1, steps - 1)) * BK
                    with (
                        stage(As, k + 1) as next_a,
                        stage(Bs, k + 1) as next_b,
                        stage(As, k) as a,
                        stage(Bs, k) as b,
                        each(thread, next_a, next_b.view(W)),
                    ):
                        for g in unroll(range(POINTS)):
                            for q in unroll(range(g * AEACH, (g + 1) * AEACH)):
                                async_copy(next_a[t % BK, q * ASTEP + t / BK], A[arow[q], k0 + t % BK])
                            for q in unroll(range(g * BEACH, (g + 1) * BEACH)):
                                async_copy(
                                    next_b[q / BACROSS * BSTEP + t / WORDS, q % BACROSS * T + t % WORDS],
                                    B.view(W)[k0 + q / BACROSS * BSTEP + t / WORDS, bcolumn[q % BACROSS]],
                                )
                            for h in unroll(range(g * STEPS, (g + 1) * STEPS)):
                                for i in unroll(range(TM // 4)):
                                    x.view(float4)[i] = a.view(float4)[h, row + 4 * i]
                                for j in unroll(range(TN // 4)):
                                    y.view(float4)[j] = b.view(float4)[h, column + 8 * j]
                                for e in unroll(range(TM * TN)):
                                    i, j = e / TN, e % TN + e / TN % 2 * (TN - 1 - 2 * (e % TN))
                                    acc[i, j] += x[i] * y[j]
            for k in range(rest, K):
                x = [A[min(m0 + (row + i / 4 * 4) * 4 + i % 4, M - 1), k] for i in range(TM)]
                y = [B[k, min(n0 + (column + j / 4 * 8) * 4 + j % 4, N - 1)] for j in range(TN)]
                for i, j in unroll(range(shape=(TM, TN))):
                    acc[i, j] += x[i] * y[j]
            if SLICED and piece >= 0:
                with each(thread, P):
                    for i, j in unroll(range(shape=(TM, TN // 4))):
                        below: int = (row + i / 4 * 4) * 4 + i % 4
                        if m0 + below < M:
                            P[i64(piece * BM + below) * (BN // 4) + (column + j * 8)] = acc.view(float4)[i, j]
            else:
                acc *= alpha
                with each(thread, C):
                    for i, j in unroll(range(shape=(TM, TN // WIDTH))):
                        to: int = m0 + (row + i / 4 * 4) * 4 + i % 4
                        at: int = n0 / WIDTH + (column + j / PARTS * 8) * PARTS + j % PARTS
                        if to < M and at < N / WIDTH:
                            C[to, at] = acc.view(W)[i, j]

    return sgemm


@functools.cache
def added(BM, BN, WIDTH, GROUP=BAND, T=ADDERS):
    """C of the tiles from number `whole` on: the sums of their slices, one after the other, times alpha."""
    W = float4 if WIDTH == 4 else float
    WORDS = BN // WIDTH

    @kernel(
        threads=T,
        where=lambda P, M, N, whole, slices, blocks: (
            1 <= M <= 2**30,
            1 <= N <= 2**30,
            N % WIDTH == 0,
            slices >= 1,
            0 <= whole <= ((M + BM - 1) // BM) * ((N + BN - 1) // BN),
            (((M + BM - 1) // BM) * ((N + BN - 1) // BN) - whole) * slices <= 2**24,
            blocks * T == (((M + BM - 1) // BM) * ((N + BN - 1) // BN) - whole) * (BM * WORDS),
            ((M + BM - 1) // BM) * ((N + BN - 1) // BN) <= 2**24,
            blocks <= 2**23,
            len(P) >= (((M + BM - 1) // BM) * ((N + BN - 1) // BN) - whole) * slices * (BM * BN),
        ),
    )
    def sgemm_add(P: ptr(const(float)), C: ptr(float, (M, N)), M: int, N: int, alpha: float, whole: int, slices: int):
        across, down = (N + BN - 1) / BN, (M + BM - 1) / BM
        with each(thread, C.view(W), disjoint=C) as i:
            piece, at = i / (BM * WORDS), i % (BM * WORDS)
            band, within = (whole + piece) / (across * GROUP), (whole + piece) % (across * GROUP)
            height: int = min(GROUP, down - band * GROUP)
            row, column = (band * GROUP + within % height) * BM + at / WORDS, within / height * WORDS + at % WORDS
            if row >= M or column >= N / WIDTH:
                return
            total = W(0)
            for s in unroll(range(slices), 8):
                total += P.view(W)[i64(piece * slices + s) * (BM * WORDS) + at]
            C[row, column] = total * alpha

    return sgemm_add
