"""`snap.lib.gemv`: a matrix times a vector.

Input:      a of M x N, x of N, floats of one type
Output:     y of M
Invariant:  the matrix is read once, in whole words along rows; sums are f32, or f64 for f64, and repeat bit for bit on
            one kind of GPU
Non-goals:  a transposed matrix (its columns would be read); scaling
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import F32, F64
from snap.host.errors import LaunchError
from snap.lib._calls.arrays import FLOATS, argument, check_sides, same_place
from snap.lib._calls.operators import element, word
from snap.lib._calls.public_types import ArrayT, DType
from snap.lib._calls.recorded import launch, recorded
from snap.lib._calls.renamed import renamed
from snap.lib._parallel.teams import most_blocks, team
from snap.lib._parallel.teams import reduce as team_reduce

THREADS, ROWS, WORDS = 128, 2, 4  # a warp takes so many rows at a time, and a lane has so many words of each in flight
BLOCK_THREADS, BLOCK_WORDS = 256, 4  # a block, or where rows are few a cluster of blocks, takes one row
LONG = 1024  # words of a row from which on a block is better than a warp
MOST_THREADS, BUSY = 512, 1024  # of a block where rows are few, and how many should be at work on each multiprocessor


@recorded
@renamed(type="dtype")
def gemv(a: ArrayT, x: ArrayT, dtype: DType | None = None) -> ArrayT:
    """Compute `a @ x` for a matrix and a vector."""
    matrix = argument("gemv", "a", a, FLOATS, rank=2, dtype=dtype, rows=True)
    vector = argument("gemv", "x", x, FLOATS, rank=1, dtype=dtype)
    check_sides("gemv", "a", matrix)
    same_place("gemv", matrix, "x", vector)
    if vector.type != matrix.type:
        raise LaunchError("snap.lib.gemv", f"holds {vector.type}, the matrix holds {matrix.type}", "x")
    rows, columns = matrix.shape
    if vector.shape != (columns,):
        raise LaunchError("snap.lib.gemv", f"has {vector.size} elements, the matrix {columns} columns", "x")
    out = matrix.new((rows,), None, zero=columns == 0)
    if matrix.size == 0:
        return out
    inside = F64 if matrix.type == F64 else F32
    width = min(matrix.width(columns), vector.width())
    words = columns // width
    if words < LONG and rows >= ROWS * 8 * matrix.multiprocessors():
        run, blocks = gemv_by_warps(matrix.type, inside, width), -(-rows // (ROWS * THREADS // WARP))
        launch(run, blocks, matrix.array, x, out, rows, columns)
    else:
        wanted = power_of_two(min(BUSY * matrix.multiprocessors() // rows, words // (2 * BLOCK_WORDS)))  # threads a row
        together = max(1, min(most_blocks(matrix), wanted // BLOCK_THREADS))
        threads = max(BLOCK_THREADS, min(MOST_THREADS, wanted // together))
        in_flight = BLOCK_WORDS if words % (4 * BLOCK_WORDS * together * threads) else 2 * BLOCK_WORDS
        rest = words % (in_flight * together * threads) != 0
        run = gemv_by_blocks(matrix.type, inside, width, in_flight, together, threads, rest)
        launch(run, rows * together, matrix.array, x, out, rows, columns)
    return out


def power_of_two(most: int) -> int:
    """The largest that is not above."""
    return 1 << max(most, 1).bit_length() - 1


@functools.cache
def gemv_by_warps(type, inside, WIDTH, R=ROWS, U=WORDS, T=THREADS):
    """A word of the vector is used for R rows.  Rows beyond the last are read as the last, and not written."""
    E, A, W = element(type), element(inside), word(type, WIDTH)

    @kernel(
        threads=T,
        where=lambda a, x, y, M, N, blocks: (
            blocks < 2**31,
            M >= 1,
            N >= 0,
            N % WIDTH == 0,
            len(a) >= M * N,
            len(x) >= N,
            len(y) >= M,
        ),
    )
    def gemv(a: ptr(const(E)), x: ptr(const(E)), y: ptr(E), M: int, N: int):
        words, whole = N / WIDTH, N / WIDTH / (32 * U) * (32 * U)
        with each(warp, y) as w:
            row: int = w * R
            first: i64[R] = [i64(min(row + r, M - 1)) * words for r in range(R)]
            sums, line, part = registers(A[R], E[R, U, WIDTH], E[U, WIDTH])
            with each(thread) as l:
                for j in range(l, whole, 32 * U):
                    for r, u in unroll(range(shape=(R, U))):
                        line.view(W)[r, u, 0] = a.view(W)[first[r] + (j + u * 32)]
                    for u in unroll(range(U)):
                        part.view(W)[u, 0] = x.view(W)[j + u * 32]
                    for r, u, i in unroll(range(shape=(R, U, WIDTH))):
                        sums[r] += A(line[r, u, i]) * A(part[u, i])
                for j in range(whole + l, words, 32):
                    part.view(W)[0, 0] = x.view(W)[j]
                    for r in unroll(range(R)):
                        line.view(W)[r, 0, 0] = a.view(W)[first[r] + j]
                        for i in unroll(range(WIDTH)):
                            sums[r] += A(line[r, 0, i]) * A(part[0, i])
            for r in unroll(range(R)):
                total: A = intrinsic.reduce_add(sums[r])
                with one(thread, y):
                    if row + r < M:
                        y[row + r] = E(total)

    return gemv


@functools.cache
def gemv_by_blocks(type, inside, WIDTH, U, C=1, T=BLOCK_THREADS, REST=True):
    """A team of C blocks takes a row.  REST: it may end within a round of U words a thread; those, too, are on their
    way together.
    """
    E, A, W = element(type), element(inside), word(type, WIDTH)
    held, S = team(C, T), C * T
    TEAM, in_team = held[0], team_reduce(inside, C, T)

    @kernel(
        threads=T,
        cluster=C if C > 1 else None,
        where=lambda a, x, y, M, N, blocks: (
            blocks <= C * M,
            N >= 0,
            N % WIDTH == 0,
            len(a) >= M * N,
            len(x) >= N,
            len(y) >= M,
        ),
    )
    def gemv(a: ptr(const(E)), x: ptr(const(E)), y: ptr(E), M: int, N: int):
        words, whole = N / WIDTH, N / WIDTH / (S * U) * (S * U)
        with each(TEAM, y) as row:
            first = i64(row) * words
            own, line, part = registers(A(0), E[U, WIDTH], E[U, WIDTH])
            with each(thread) as t:
                for j in range(t, whole, S * U):
                    for u in unroll(range(U)):
                        line.view(W)[u, 0] = a.view(W)[first + (j + u * S)]
                    for u in unroll(range(U)):
                        part.view(W)[u, 0] = x.view(W)[j + u * S]
                    for u, i in unroll(range(shape=(U, WIDTH))):
                        own += A(line[u, i]) * A(part[u, i])
                if REST:
                    for u in unroll(range(U)):
                        if whole + (t + u * S) < words:
                            line.view(W)[u, 0] = a.view(W)[first + (whole + (t + u * S))]
                            part.view(W)[u, 0] = x.view(W)[whole + (t + u * S)]
                    for u in unroll(range(U)):
                        if whole + (t + u * S) < words:
                            for i in unroll(range(WIDTH)):
                                own += A(line[u, i]) * A(part[u, i])
            total: A @ thread[1] = in_team(own)
            with each(thread, y) as t:
                if t == 0:
                    y[row] = E(total)

    return gemv
