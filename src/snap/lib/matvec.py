"""`snap.lib.gemv`: a matrix times a vector.

Input:      a of M x N, x of N, floats of one type
Output:     y of M
Invariant:  the matrix is read once, in whole words along rows; sums are f32, or f64 for f64
Non-goals:  a transposed matrix (its columns would be read); scaling
"""

from __future__ import annotations

import functools

from snap import *
from snap.ir.types import F32, F64
from snap.lib import block as of_block
from snap.lib.arrays import FLOATS, argument, check_sides, same_place
from snap.lib.operators import element, word
from snap.runtime.errors import LaunchError

THREADS, ROWS, WORDS = 128, 2, 4  # a warp takes so many rows at a time, and a lane has so many words of each in flight
BLOCK_THREADS, BLOCK_WORDS = 256, 8  # a block takes one row
LONG = 1024  # words of a row from which on a block is better than a warp


def gemv(a, x, type=None):
    """`a @ x` for a matrix and a vector."""
    matrix = argument("gemv", "a", a, FLOATS, rank=2, type=type)
    vector = argument("gemv", "x", x, FLOATS, rank=1, type=type)
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
        gemv_by_warps(matrix.type, inside, width)[-(-rows // (ROWS * THREADS // 32))](a, x, out, rows, columns)
    else:
        in_flight = BLOCK_WORDS if words >= 2 * BLOCK_WORDS * BLOCK_THREADS else BLOCK_WORDS // 2
        gemv_by_blocks(matrix.type, inside, width, in_flight)[rows](a, x, out, rows, columns)
    return out


@functools.cache
def gemv_by_warps(type, inside, WIDTH, R=ROWS, U=WORDS, T=THREADS):
    """A word of the vector is used for R rows.  Rows beyond the last are read as the last, and not written."""
    E, A, W = element(type), element(inside), word(type, WIDTH)

    @kernel
    @requires(grid[1], block[1], thread[T])
    def gemv(a: ptr(const(E)) @ grid[1], x: ptr(const(E)) @ grid[1], y: ptr(E) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
        with group(grid[1]):
            row: int @ warp = id() * R
            words: int = N / WIDTH
            with partition(y, p=warp, offset=row) as written:
                with group(warp):
                    l: int @ thread[1] = id()
                    first: i64[R]
                    for r in unroll(range(R)):
                        first[r] = i64(min(row + r, M - 1)) * words
                    sums: A[R] @ thread[1]
                    line: E[R, U, WIDTH] @ thread[1]
                    part: E[U, WIDTH] @ thread[1]
                    whole: int = words / (32 * U) * (32 * U)
                    with group(thread[1]):
                        for j in range(l, whole, 32 * U):
                            for r in unroll(range(R)):
                                for u in unroll(range(U)):
                                    line.view(W)[r, u, 0] = a.view(W)[first[r] + (j + u * 32)]
                            for u in unroll(range(U)):
                                part.view(W)[u, 0] = x.view(W)[j + u * 32]
                            for r in unroll(range(R)):
                                for u in unroll(range(U)):
                                    for i in unroll(range(WIDTH)):
                                        sums[r] += A(line[r, u, i]) * A(part[u, i])
                        for j in range(whole + l, words, 32):
                            part.view(W)[0, 0] = x.view(W)[j]
                            for r in unroll(range(R)):
                                line.view(W)[r, 0, 0] = a.view(W)[first[r] + j]
                                for i in unroll(range(WIDTH)):
                                    sums[r] += A(line[r, 0, i]) * A(part[0, i])
                    with claim(written, p=thread[1]) as cell:
                        for r in unroll(range(R)):
                            total: A = intrinsic.reduce_add(sums[r])
                            match split(thread):
                                case 1:
                                    if row + r < M:
                                        cell[r] = E(total)

    return gemv


@functools.cache
def gemv_by_blocks(type, inside, WIDTH, U, T=BLOCK_THREADS):
    E, A, W = element(type), element(inside), word(type, WIDTH)
    in_block = of_block.reduce(inside, T)

    @kernel
    @requires(grid[1], block[1], thread[T])
    def gemv(a: ptr(const(E)) @ grid[1], x: ptr(const(E)) @ grid[1], y: ptr(E) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
        with group(grid[1]):
            row: int @ block[1] = id()
            words: int = N / WIDTH
            with partition(y, p=block[1], offset=row) as written:
                with group(block[1]):
                    t: int @ thread[1] = id()
                    first: i64 = i64(row) * words
                    own: A @ thread[1] = A(0)
                    line: E[U, WIDTH] @ thread[1]
                    part: E[U, WIDTH] @ thread[1]
                    whole: int = words / (T * U) * (T * U)
                    with group(thread[1]):
                        for j in range(t, whole, T * U):
                            for u in unroll(range(U)):
                                line.view(W)[u, 0] = a.view(W)[first + (j + u * T)]
                            for u in unroll(range(U)):
                                part.view(W)[u, 0] = x.view(W)[j + u * T]
                            for u in unroll(range(U)):
                                for i in unroll(range(WIDTH)):
                                    own += A(line[u, i]) * A(part[u, i])
                        for j in range(whole + t, words, T):
                            line.view(W)[0, 0] = a.view(W)[first + j]
                            part.view(W)[0, 0] = x.view(W)[j]
                            for i in unroll(range(WIDTH)):
                                own += A(line[0, i]) * A(part[0, i])
                    total: A = in_block(own)
                    with claim(written, p=thread[1]) as cell:
                        match split(thread):
                            case 1:
                                cell[0] = E(total)

    return gemv
