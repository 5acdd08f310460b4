"""`snap.lib.column_sums`: the sum of all rows of a matrix, in two stages.

Input:      a matrix of floats
Output:     one row, of its type or another one
Invariant:  sums are f32, and taken in an order that the shape and the number of multiprocessors decide
Non-goals:  other axes
"""

from __future__ import annotations

import functools
from typing import Any

from snap import *
from snap._compiler.ir.types import F32, Scalar
from snap.lib._calls.arrays import Argument, nothing
from snap.lib._calls.operators import element
from snap.lib._calls.public_types import ArrayT, FloatType
from snap.lib._calls.recorded import launch, recorded
from snap.lib._layers.layer_arrays import floats, loader, new, rows_of, shared_width, stored
from snap.lib._torch.derivatives import refuse_unseen

LANES, THREADS = 8, 512  # of a block, words side by side and all threads: 64 rows at a time
ROUNDS = 4  # rows a thread takes, at least, before a matrix is divided among more blocks


def column_sums(x: ArrayT, *, dtype: FloatType | None = None) -> ArrayT:
    """Add up all rows of `x`, which has two dimensions: the gradient of a bias. `dtype` is that of the result, by
    default that of `x`.
    """
    refuse_unseen("column_sums", x=x)
    return summed(x, dtype)


@recorded
def summed(x, dtype):
    given = floats("column_sums", "x", x, rank=2, rows=True)
    rows, length = rows_of("column_sums", "x", given)
    type = stored("column_sums", "dtype", dtype, given.type)
    out = new(given, (length,), type)
    if length:
        add_columns(given, given.array, given.type, shared_width(length, given), rows, length, out, type)
    return out


def add_columns(
    given: Argument,
    array: Any,
    type: Scalar,
    width: int,
    rows: int,
    length: int,
    out: Any,
    result: Scalar,
    second: Any = None,
    halves: int = 0,
) -> None:
    """Launch the sums of `array`, beside `given`, to `out`. With a second result, columns from `halves` on are written
    there.
    """
    tiles = -(-length // (LANES * width))
    at_once = THREADS // LANES
    splits = max(1, min(4 * given.multiprocessors() // tiles, rows // (at_once * ROUNDS)))
    if splits > 1:
        partial = given.new((splits, length), F32)
        run = columns_kernel(type, F32, width)
        launch(run, tiles * splits, array, partial, nothing(given, F32), rows, length, tiles, length)
        array, type, width, rows = partial, F32, 4 if length % 4 == 0 else 1, splits
        tiles = -(-length // (LANES * width))
    other = nothing(given, result) if second is None else second
    first = length if second is None else halves
    launch(columns_kernel(type, result, width), tiles, array, out, other, rows, length, tiles, first)


@functools.cache
def columns_kernel(type, result, WIDTH, L=LANES, T=THREADS):
    """A block takes L words of columns, and rows from its split on: T / L of them at a time.  What those groups of
    threads have, it adds up in shared memory.
    """
    E, R = element(type), element(result)
    load, COLUMNS, GROUPS = loader(type, WIDTH), L * WIDTH, T // L

    @kernel(
        threads=T,
        where=lambda x, out, second, M, N, tiles, first, blocks: (
            0 <= M <= 2**30,
            1 <= N <= 2**30,
            N % WIDTH == 0,
            tiles == (N + COLUMNS - 1) // COLUMNS,
            blocks % tiles == 0,
            blocks <= 2**16 + tiles,
            0 <= first <= N,
            first == N or blocks == tiles,
            len(x) >= M * N,
            len(out) >= (blocks // tiles - 1) * N + first,
            len(second) >= N - first,
        ),
    )
    def column_sums(x: ptr(const(E)), out: ptr(R), second: ptr(R), M: int, N: int, tiles: int, first: int):
        words: int = N / WIDTH
        splits: int = count(block[1]) / tiles
        with each(block, out, second, disjoint=(out, second)) as b:
            split: int = b / tiles
            tile: int = b % tiles
            sums: shared(float[GROUPS, COLUMNS])
            with each(thread, sums) as t:
                own: int = t / L
                j: int = tile * L + t % L
                v: float[WIDTH]
                total: float[WIDTH]
                if j < words:
                    for row in unroll(range(split * GROUPS + own, M, splits * GROUPS), 4):
                        load(x, i64(row) * words + j, v)
                        for i in unroll(range(WIDTH)):
                            total[i] += v[i]
                for i in unroll(range(WIDTH)):
                    sums[own, t % L * WIDTH + i] = total[i]
            with each(thread, out, second, disjoint=(out, second)) as t:
                column: int = tile * COLUMNS + t
                if t < COLUMNS and column < N:
                    all: float = 0.0
                    for k in unroll(range(GROUPS), 8):
                        all += sums[k, t]
                    if column < first:
                        out[i64(split) * N + column] = R(all)
                    else:
                        second[column - first] = R(all)

    return column_sums
