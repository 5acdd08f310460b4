"""`snap.lib.transpose`: rows become columns.

Input:      an array of two dimensions, elements of 1, 2, 4 or 8 bytes
Output:     a new array, row-major, of the shape turned round
Invariant:  both sides are read and written in whole words along rows, wherever rows begin; the turn happens in shared
            memory
Non-goals:  more than two dimensions; in place
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.types import BOOL, Scalar
from snap.lib._calls.arrays import MAX_SIDE, NUMBERS, argument, check_sides
from snap.lib._calls.operators import element, word
from snap.lib._calls.public_types import ArrayT
from snap.lib._calls.recorded import launch, recorded

THREADS = 256
# tiles are taken down bands of so many columns: blocks that run together then write whole rows of the result, and read
# parts of rows
BAND = 2
TILES = {1: 128, 2: 64, 4: 64, 8: 32}  # rows and columns of a tile by the bytes of an element
SECTOR = 32  # bytes: what the memory writes at once
RAGGED_BAND = 2 * BAND  # wider where rows begin anywhere: at a band's edges sectors are read again


@recorded
def transpose(x: ArrayT) -> ArrayT:
    """Return a new array with `out[j, i] == x[i, j]`."""
    given = argument("transpose", "x", x, (BOOL, *NUMBERS), rank=2, rows=True)
    check_sides("transpose", "x", given)
    rows, columns = given.shape
    out = given.new((columns, rows))
    if given.size == 0:
        return out
    tile = TILES[given.type.bytes]
    whole = given.width()
    if whole * given.type.bytes == 16 and (rows % whole or columns % whole):
        run, down = ragged_transpose_kernel(given.type, whole, tile), -(-(rows + more_rows(given.type)) // tile)
    else:
        run, down = transpose_kernel(given.type, given.width(rows, columns), tile), -(-rows // tile)
    launch(run, -(-columns // tile) * down, given.array, out, rows, columns)
    return out


def more_rows(type: Scalar) -> int:
    """Return how many elements after a sector's start the result's rows may begin, for a ragged tile."""
    return SECTOR // type.bytes - 1


@functools.cache
def transpose_kernel(type, WIDTH, TILE, T=THREADS, GROUP=BAND):
    """Elements are moved, not looked at, but their type is the array's: a launch checks it."""
    E, W = element(type), word(type, WIDTH)
    ALONG = TILE // WIDTH  # words a row of the tile
    STEP = T // ALONG  # rows that the block reads at a time
    U = TILE // STEP

    @kernel(
        threads=T,
        where=lambda x, out, M, N, blocks: (
            1 <= M <= MAX_SIDE,
            1 <= N <= MAX_SIDE,
            N % WIDTH == 0,
            M % WIDTH == 0,
            len(x) >= M * N,
            len(out) >= M * N,
            blocks == ((N + TILE - 1) // TILE) * ((M + TILE - 1) // TILE),
        ),
    )
    def transpose(x: ptr(const(E)), out: ptr(E), M: int, N: int):
        across, down = (N + TILE - 1) / TILE, (M + TILE - 1) / TILE
        with each(block, out.view(W), disjoint=out) as b:
            band, within = b / (down * GROUP), b % (down * GROUP)
            width: int = min(GROUP, across - band * GROUP)
            row, column = within / width * TILE, (band * GROUP + within % width) * TILE
            s, raw = shared(E[TILE, TILE + 1]), registers(E[U, WIDTH])
            i, j = ids(thread, shape=(..., ALONG))
            with each(thread):
                for u in unroll(range(U)):
                    if row + i + u * STEP < M and column + j * WIDTH < N:
                        raw.view(W)[u, 0] = x.view(W)[i64(row + i + u * STEP) * (N / WIDTH) + (column / WIDTH + j)]
            with each(thread, s):
                for u, k in unroll(range(shape=(U, WIDTH))):
                    s[i + u * STEP, j * WIDTH + k] = raw[u, k]
            raw = [[s[j * WIDTH + k, i + u * STEP] for k in range(WIDTH)] for u in range(U)]
            with each(thread, out):
                for u in unroll(range(U)):
                    if column + i + u * STEP < N and row + j * WIDTH < M:
                        out[i64(column + i + u * STEP) * (M / WIDTH) + (row / WIDTH + j)] = raw.view(W)[u, 0]

    return transpose


# Rows that are no whole words long begin anywhere in one.  What is read of a row are the words that the tile touches,
# one more than it is long. What is written of a row of the result begins at the sector in which the tile's part would
# begin, so that every block writes whole sectors, and only a row's first and last word hold elements of others.  For
# that the block reads up to MORE rows above its tile.


@functools.cache
def ragged_transpose_kernel(type, WIDTH, TILE, T=THREADS, GROUP=RAGGED_BAND):
    E, W = element(type), word(type, WIDTH)
    MORE = more_rows(type)
    EDGE, ROWS, ALONG = MORE + 1, MORE + TILE, TILE // WIDTH
    LOADS, STORES = -(-ROWS * (ALONG + 1) // T), TILE * ALONG // T  # words a thread

    @kernel(
        threads=T,
        where=lambda x, out, M, N, blocks: (
            1 <= M <= MAX_SIDE,
            1 <= N <= MAX_SIDE,
            len(x) >= M * N,
            len(out) >= M * N,
            blocks == ((N + TILE - 1) // TILE) * ((M + (MORE + TILE - 1)) // TILE),
        ),
    )
    def transpose(x: ptr(const(E)), out: ptr(E), M: int, N: int):
        across, down = (N + TILE - 1) / TILE, (M + (MORE + TILE - 1)) / TILE
        there: i64 = i64(M) * N / WIDTH  # whole words of the array
        with each(block, out, disjoint=out) as b:
            band, within = b / (down * GROUP), b % (down * GROUP)
            width: int = min(GROUP, across - band * GROUP)
            row, column = within / width * TILE, (band * GROUP + within % width) * TILE
            s, raw = shared(E[ROWS, TILE + 1]), registers(E[LOADS, WIDTH])
            with each(thread, s) as t:
                for u in unroll(range(LOADS)):
                    # The row of the array, and the column in the tile.
                    i, j = row - MORE + (t + u * T) / (ALONG + 1), (t + u * T) % (ALONG + 1) * WIDTH
                    j -= ((i & (WIDTH - 1)) * (N % WIDTH) + column) % WIDTH
                    if i >= 0 and i < M and j < min(TILE, N - column) and t + u * T < ROWS * (ALONG + 1):
                        first: i64 = (i64(i) * N + (column + j)) / WIDTH
                        if first < there:
                            raw.view(W)[u, 0] = x.view(W)[first]
                        else:
                            for k in unroll(range(WIDTH)):
                                if column + j + k < N:
                                    raw[u, k] = x[first * WIDTH + k]
                for u in unroll(range(LOADS)):
                    i, j = (t + u * T) / (ALONG + 1), (t + u * T) % (ALONG + 1) * WIDTH
                    j -= ((row - MORE + i & (WIDTH - 1)) * (N % WIDTH) + column) % WIDTH
                    for k in unroll(range(WIDTH)):
                        if j + k >= 0 and j + k < TILE and t + u * T < ROWS * (ALONG + 1):
                            s[i, j + k] = raw[u, k]
            with each(thread, out, disjoint=out) as t:
                for u in unroll(range(STORES)):
                    i: int = (t + u * T) / ALONG  # the row of the result, in the tile
                    back: int = (column + i) % EDGE * (M % EDGE) % EDGE
                    j: int = (t + u * T) % ALONG * WIDTH - back
                    done: E[WIDTH] = [s[MORE + j + k, i] for k in range(WIDTH)]
                    if column + i < N:
                        if row + j >= 0 and row + j + WIDTH <= M:
                            out.view(W)[(i64(column + i) * M + (row + j)) / WIDTH] = done.view(W)[0]
                        else:
                            for k in unroll(range(WIDTH)):
                                if row + j + k >= 0 and row + j + k < M:
                                    out[i64(column + i) * M + (row + j + k)] = done[k]

    return transpose
