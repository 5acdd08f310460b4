"""`snap.lib.sgemm`: a product of f32 matrices on the ordinary arithmetic units, without tensor cores.  The last rung of a ladder (sgemm_ladder.py).

Input:      a of M x K, b of K x N, both f32, and a factor
Output:     alpha * (a @ b) of M x N; products and sums in f32
Invariant:  memory beyond the arrays is not touched: rows and columns beyond the last are read as the last and not written, and what is left of K
            after whole tiles is read where it lies
Non-goals:  tensor cores (gemm, gemm_tf32); adding to what is there
"""

from __future__ import annotations

import functools

from snap import *
from snap.ir.types import F32
from snap.lib.arrays import Argument, argument, check_sides, number, same_place
from snap.lib.sgemm_ladder import blocks_of_tiles
from snap.runtime.arrays import classify
from snap.runtime.errors import LaunchError

BAND = 8  # tiles are taken in bands of so many rows of them, column by column: blocks that run together share rows and columns
STAGES = 3  # slots of a tile.  Two are enough, but with an even number NVRTC 13.0 moves every sum to another register once a tile
LARGE, SMALL = (128, 256, 16, 16, 8), (64, 64, 32, 8, 4)  # tiles: rows, columns, depth; rows and columns of a thread


def sgemm(a, b, alpha=1.0):
    """`alpha * (a @ b)` for f32 matrices.  Matrices that are not row-major are copied first."""
    left, right = matrix("sgemm", "a", a), matrix("sgemm", "b", b)
    rows, columns = product_shape("sgemm", left, right)
    depth, alpha = left.shape[1], number("sgemm", "alpha", alpha, F32)
    out = left.new((rows, columns), zero=depth == 0)
    if rows * columns * depth == 0:
        return out
    left, right = row_major(left), row_major(right)
    width = 4 if min(right.width(columns), Argument(out, classify(out), F32).width(columns)) == 4 else 1
    tile = LARGE if 4 * blocks_of_tiles(rows, columns, *LARGE[:2]) >= 3 * left.multiprocessors() else SMALL
    warp_tiled(*tile, STAGES, width)[blocks_of_tiles(rows, columns, *tile[:2])](left.array, right.array, out, rows, columns, depth, alpha)
    return out


def matrix(function: str, name: str, value: object) -> Argument:
    given = argument(function, name, value, (F32,), rank=2, strided=True)
    check_sides(function, name, given)
    return given


def product_shape(function: str, left: Argument, right: Argument) -> tuple[int, int]:
    same_place(function, left, "b", right)
    if left.shape[1] != right.shape[0]:
        raise LaunchError(f"snap.lib.{function}", f"has {right.shape[0]} rows, and the first matrix {left.shape[1]} columns", "b")
    return left.shape[0], right.shape[1]


def row_major(given: Argument) -> Argument:
    """The matrix, or a copy of it that lies row after row."""
    if given.info.contiguous:
        return given
    copy = given.new(given.shape)
    if given.info.family == "torch":
        copy.copy_(given.array.detach())
    else:
        copy[...] = given.array
    return Argument(copy, classify(copy), given.type)


@functools.cache
def warp_tiled(BM, BN, BK, TM, TN, STAGES, WIDTH, GROUP=BAND):
    """While one tile is multiplied the next comes by copies in the background, in STAGES slots.  B and C are moved in words of WIDTH elements.

    The copies are issued a few at a time, between the products: in one burst they would stand before the reads of shared memory.  After the last
    tile its copies are made once more, into a slot that nobody reads: a condition would cut the loop into pieces.

    A thread has TM x TN results, in groups of four: 4 lanes of a warp lie below each other and 8 beside each other, so a read of shared memory is
    one float4 a lane, no two different ones in one bank.  Lanes that read the same word are neighbours (lane ^ 1 or lane ^ 2), which the hardware
    serves together.  The tile of A is turned round as it is copied; its rows are padded by one word, so that what a warp copies goes to different
    banks.

    The products go through y and back again, so that each shares a factor with the one before: of the three registers an instruction reads two
    come from the register file, which has one from its even and one from its odd half at a time.  `alpha` leaves the compiler free to keep a sum
    in the other half than the column's y: in a float4 that is stored as it is, it would be in the same.
    """
    W = float4 if WIDTH == 4 else float
    ROWS, COLUMNS = 4 * TM, 8 * TN  # of a warp
    ACROSS = BN // COLUMNS
    T = BM // ROWS * ACROSS * 32
    WORDS = BN // WIDTH  # a row of B's tile
    ASTEP, BSTEP = T // BK, T // WORDS  # rows that the block copies at a time
    ACOPIES, BCOPIES = BM // ASTEP, BK // BSTEP  # of a thread, a tile
    POINTS = min(4, ACOPIES, BCOPIES)  # places between the products where copies are issued
    AEACH, BEACH, STEPS = ACOPIES // POINTS, BCOPIES // POINTS, BK // POINTS  # copies there, and the depth that is multiplied after them
    PARTS = 4 // WIDTH  # words a float4

    @kernel
    @requires(grid[1], block[1], thread[T])
    def sgemm(A: ptr(const(float), (M, K)) @ grid[1], B: ptr(const(float), (K, N)) @ grid[1], C: ptr(float, (M, N)) @ grid[1],
              M: int @ grid[1], N: int @ grid[1], K: int @ grid[1], alpha: float @ grid[1]):
        with group(grid[1]):
            across: int = (N + BN - 1) / BN
            down: int = (M + BM - 1) / BM
            band: int @ block[1] = id() / (across * GROUP)
            within: int @ block[1] = id() % (across * GROUP)
            height: int @ block[1] = min(GROUP, down - band * GROUP)
            m0: int @ block[1] = (band * GROUP + within % height) * BM
            n0: int @ block[1] = within / height * BN
            with partition(C.view(W), p=block[1], disjoint=True) as Cb:
                with group(block[1]):
                    As: pipeline(shared(float[BK, BM + 4]), STAGES)
                    Bs: pipeline(shared(float[BK, BN]), STAGES)
                    t: int @ thread[1] = id()
                    w: int @ warp = id()
                    row: int @ thread[1] = w / ACROSS * TM + t % 2 + t % 32 / 16 * 2
                    column: int @ thread[1] = w % ACROSS * (2 * TN) + t % 16 / 2
                    bcolumn: int @ thread[1] = min(n0 / WIDTH + t % WORDS, N / WIDTH - 1)
                    arow: int[ACOPIES] @ thread[1]
                    for q in unroll(range(ACOPIES)):
                        arow[q] = min(m0 + t / BK + q * ASTEP, M - 1)
                    acc: float[TM, TN] @ thread[1]
                    x: float[TM] @ thread[1]
                    y: float[TN] @ thread[1]
                    steps: int = K / BK
                    if steps > 0:
                        with stage(As, 0) as a, stage(Bs, 0) as b:
                            with partition(a, p=thread[1], f=lambda q: (t % BK, q * ASTEP + t / BK)) as d:
                                for q in unroll(range(ACOPIES)):
                                    async_copy(d[q], A[arow[q], t % BK])
                            with partition(b.view(W), p=thread[1], f=lambda q: (q * BSTEP + t / WORDS, t % WORDS)) as d:
                                for q in unroll(range(BCOPIES)):
                                    async_copy(d[q], B.view(W)[q * BSTEP + t / WORDS, bcolumn])
                        for k in range(steps):
                            k0: int = min(k + 1, steps - 1) * BK
                            with stage(As, k + 1) as next_a, stage(Bs, k + 1) as next_b, stage(As, k) as a, stage(Bs, k) as b:
                                with partition(next_a, p=thread[1], f=lambda q: (t % BK, q * ASTEP + t / BK)) as da, \
                                        partition(next_b.view(W), p=thread[1], f=lambda q: (q * BSTEP + t / WORDS, t % WORDS)) as db:
                                    for g in unroll(range(POINTS)):
                                        for q in unroll(range(AEACH)):
                                            async_copy(da[g * AEACH + q], A[arow[g * AEACH + q], k0 + t % BK])
                                        for q in unroll(range(BEACH)):
                                            async_copy(db[g * BEACH + q], B.view(W)[k0 + (g * BEACH + q) * BSTEP + t / WORDS, bcolumn])
                                        for h in unroll(range(STEPS)):
                                            for i in unroll(range(TM // 4)):
                                                x.view(float4)[i] = a.view(float4)[g * STEPS + h, row + 4 * i]
                                            for j in unroll(range(TN // 4)):
                                                y.view(float4)[j] = b.view(float4)[g * STEPS + h, column + 8 * j]
                                            for i in unroll(range(TM)):
                                                for j in unroll(range(TN)):
                                                    acc[i, j + i % 2 * (TN - 1 - 2 * j)] += x[i] * y[j + i % 2 * (TN - 1 - 2 * j)]
                    for k in range(steps * BK, K):
                        for i in unroll(range(TM)):
                            x[i] = A[min(m0 + (row + i / 4 * 4) * 4 + i % 4, M - 1), k]
                        for j in unroll(range(TN)):
                            y[j] = B[k, min(n0 + (column + j / 4 * 8) * 4 + j % 4, N - 1)]
                        for i in unroll(range(TM)):
                            for j in unroll(range(TN)):
                                acc[i, j] += x[i] * y[j]
                    for i in unroll(range(TM)):
                        for j in unroll(range(TN)):
                            acc[i, j] *= alpha
                    with partition(Cb, p=thread[1]) as Ct:
                        with group(thread[1]):
                            for i in unroll(range(TM)):
                                to: int = m0 + (row + i / 4 * 4) * 4 + i % 4
                                for j in unroll(range(TN // WIDTH)):
                                    at: int = n0 / WIDTH + (column + j / PARTS * 8) * PARTS + j % PARTS
                                    if to < M and at < N / WIDTH:
                                        Ct[to, at] = acc.view(W)[i, j]

    return sgemm
