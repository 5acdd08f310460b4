"""The gradients of a norm's weight and bias, where rows are too long for a team's registers.

Input:      rows of E, the gradient of what they were turned into, and the mean and 1 / deviation of each
Output:     a kernel that leaves sums over the rows of a split, for `column_sums` to add up
Invariant:  sums are taken in one order
Non-goals:  rows that fit (norm_kernels.py); how many splits there are (norms.py)
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.types import F32
from snap.lib._calls.operators import element
from snap.lib._layers.layer_arrays import loader, storer


@functools.cache
def norm_weight_kernel(type, WIDTH, T, CENTRED, BIAS, SUMS=False):
    """Make the kernel that adds up what rows of a split give to the gradients of weight and bias, and the sums of their
    dx. A thread takes a word of columns.
    """
    E, PARTS = element(type), 1 + BIAS + SUMS
    load, keep = loader(type, WIDTH), storer(F32, WIDTH)

    @kernel(
        threads=T,
        where=lambda grad, x, mean, rstd, dx, partial, M, N, tiles, blocks: (
            1 <= M <= 2**30,
            1 <= N <= 2**30,
            N % WIDTH == 0,
            tiles == (N // WIDTH + T - 1) // T,
            blocks % tiles == 0,
            blocks // tiles <= 2**16,
            len(grad) >= M * N,
            len(x) >= M * N,
            not CENTRED or len(mean) >= M,
            len(rstd) >= M,
            not SUMS or len(dx) >= M * N,
            len(partial) >= blocks // tiles * PARTS * N,
        ),
    )
    def norm_weight(
        grad: ptr(const(E)),
        x: ptr(const(E)),
        mean: ptr(const(float)),
        rstd: ptr(const(float)),
        dx: ptr(const(E)),
        partial: ptr(float),
        M: int,
        N: int,
        tiles: int,
    ):
        words: int = N / WIDTH
        splits: int = count(block[1]) / tiles
        with each(block, partial, disjoint=partial) as b:
            split: int = b / tiles
            with each(thread, partial, disjoint=partial) as t:
                j: int = b % tiles * T + t
                if j < words:
                    y, g, d, columns = registers(float[WIDTH], float[WIDTH], float[WIDTH], float[PARTS, WIDTH])
                    for row in range(split, M, splits):
                        load(x, i64(row) * words + j, y)
                        load(grad, i64(row) * words + j, g)
                        if SUMS:
                            load(dx, i64(row) * words + j, d)
                        centre: float = mean[row] if CENTRED else 0.0
                        for i in unroll(range(WIDTH)):
                            columns[0, i] += g[i] * ((y[i] - centre) * rstd[row])
                            if BIAS:
                                columns[1, i] += g[i]
                            if SUMS:
                                columns[PARTS - 1, i] += d[i]
                    for part in unroll(range(PARTS)):
                        keep(partial, (i64(split) * PARTS + part) * words + j, columns[part])

    return norm_weight
