"""Asynchronous copies of 16 bytes of which only the first elements are read (`cp.async` with a source size): the ragged end of an array, rows of a
matrix with fewer columns than its pitch, elements of 2 bytes, of which a word may be half there.
"""

from __future__ import annotations

import numpy as np

from snap import *

T = 64


@kernel(threads=T, blocks=lambda n: max(1, -(-n // (4 * T))), where=lambda n, x, total, blocks: (n >= 0, len(x) >= n, len(total) >= 1, blocks == max(1, (n + 4 * T - 1) // (4 * T))))
def ragged_sum(x: ptr(const(float)), total: ptr(float), n: int):
    """The sum of n floats: the last vector may end anywhere, and nothing behind it is read."""
    with each(block) as b:
        s: shared(float4[T])
        with each(thread, s) as t:
            i: int = b * T + t
            async_copy(s[t], x.view(float4)[i], elements=n - 4 * i)
        with each(thread) as t:
            v: float4 = s[T - 1 - t]
            atomic.add(total, 0, v.x + v.y + v.z + v.w)


@kernel(threads=T, where=lambda rows, columns, pitch, blocks: (blocks <= rows, 0 <= columns <= 8 * pitch, pitch <= 2**20))
def rows_of_halves(x: ptr(f16, (rows, 8 * pitch)), y: ptr(f16, (rows, 8 * pitch)), rows: int, columns: i64, pitch: int):
    """Rows with a pitch: what lies behind a row's columns is there, and comes as zeros; x is not const."""
    with each(block, y) as row:
        s: pipeline(shared(uint4[T]), 2)
        for k in range((pitch + T - 1) / T):
            with stage(s) as part:
                with each(thread, part) as t:
                    j: int = k * T + t
                    async_copy(part[t], x.view(uint4)[row, j], elements=columns - 8 * i64(j), l2="evict_first")
                with each(thread, y.view(uint4)) as t:
                    if k * T + t < pitch:
                        y[row, k * T + t] = part[t]


def check():
    rng = np.random.default_rng(12)
    for n in (0, 1, 2, 3, 5, 4 * T - 1, 4 * T + 1, 1000):
        x, total = rng.integers(-9, 9, n).astype(np.float32), np.zeros(3, np.float32)
        ragged_sum(x, total[:1], n)
        for seed in (1, 2):
            ragged_sum.launch(x, total[seed : seed + 1], n, blocks=max(1, -(-n // (4 * T))), seed=seed)
        assert (total == x.sum()).all(), n
    assert not ragged_sum.races(x, np.zeros(1, np.float32), 1000, blocks=4, seeds=2)

    for rows, columns, pitch in ((3, 8, 1), (2, 77, 10), (2, 0, 2), (1, 517, 70)):
        x = rng.integers(1, 9, (rows, 8 * pitch)).astype(np.float16)
        want = np.where(np.arange(8 * pitch) < columns, x, 0)
        y = np.full_like(x, -1)
        rows_of_halves[rows](x, y, rows, columns, pitch)
        np.testing.assert_array_equal(y, want)
        y[:] = -1
        rows_of_halves.launch(x, y, rows, columns, pitch, blocks=rows, seed=1)
        np.testing.assert_array_equal(y, want)
    assert not rows_of_halves.races(x, y, rows, columns, pitch, blocks=rows, seeds=2)
