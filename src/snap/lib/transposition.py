"""`snap.lib.transpose`: rows become columns.

Input:      an array of two dimensions, elements of 1, 2, 4 or 8 bytes
Output:     a new array, row-major, of the shape turned round
Invariant:  both sides are read and written in whole words along rows; the turn happens in shared memory
Non-goals:  more than two dimensions; in place
"""

from __future__ import annotations

import functools

from snap import *
from snap.ir.types import BOOL
from snap.lib.arrays import NUMBERS, argument, check_sides
from snap.lib.operators import element, word

THREADS = 256
BAND = 8  # tiles are taken in bands of so many rows: what is written together then lies together, too
TILES = {1: 128, 2: 64, 4: 64, 8: 32}  # rows and columns of a tile by the bytes of an element


def transpose(x):
    """A new array with `out[j, i] == x[i, j]`."""
    given = argument("transpose", "x", x, (BOOL, *NUMBERS), rank=2)
    check_sides("transpose", "x", given)
    rows, columns = given.shape
    out = given.new((columns, rows))
    if given.size == 0:
        return out
    tile = TILES[given.type.bytes]
    across, down = -(-columns // tile), -(-rows // tile)
    run = transpose_kernel(given.type, given.width(rows, columns), tile)
    run[across * down](given.array, out, rows, columns)
    return out


@functools.cache
def transpose_kernel(type, WIDTH, TILE, T=THREADS, GROUP=BAND):
    """Elements are moved, not looked at, but their type is the array's: a launch checks it."""
    E, W = element(type), word(type, WIDTH)
    ALONG = TILE // WIDTH  # words a row of the tile
    STEP = T // ALONG  # rows that the block reads at a time
    U = TILE // STEP

    @kernel
    @requires(grid[1], block[1], thread[T])
    def transpose(x: ptr(const(E)) @ grid[1], out: ptr(E) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
        with group(grid[1]):
            across: int = (N + TILE - 1) / TILE
            down: int = (M + TILE - 1) / TILE
            band: int @ block[1] = id() / (across * GROUP)
            within: int @ block[1] = id() % (across * GROUP)
            height: int @ block[1] = min(GROUP, down - band * GROUP)
            row: int @ block[1] = (band * GROUP + within % height) * TILE
            column: int @ block[1] = within / height * TILE
            with partition(out.view(W), p=block[1], disjoint=True) as turned:
                with group(block[1]):
                    s: shared(E[TILE, TILE + 1])
                    j: int @ thread[1] = id() % ALONG
                    i: int @ thread[1] = id() / ALONG
                    raw: E[U, WIDTH] @ thread[1]
                    with group(thread[1]):
                        for u in unroll(range(U)):
                            if row + i + u * STEP < M and column + j * WIDTH < N:
                                raw.view(W)[u, 0] = x.view(W)[i64(row + i + u * STEP) * (N / WIDTH) + (column / WIDTH + j)]
                    with partition(s, p=thread[1], f=lambda u, k: (i + u * STEP, j * WIDTH + k)) as cell:
                        for u in unroll(range(U)):
                            for k in unroll(range(WIDTH)):
                                cell[u, k] = raw[u, k]
                    for u in unroll(range(U)):
                        for k in unroll(range(WIDTH)):
                            raw[u, k] = s[j * WIDTH + k, i + u * STEP]
                    with partition(turned, p=thread[1], f=lambda u: i64(column + i + u * STEP) * (M / WIDTH) + (row / WIDTH + j)) as cell:
                        with group(thread[1]):
                            for u in unroll(range(U)):
                                if column + i + u * STEP < N and row + j * WIDTH < M:
                                    cell[u] = raw.view(W)[u, 0]

    return transpose
