"""Zero-filling asynchronous copies (`cp.async` with a source size of 0): a halo at both ends of an array, rows of a ragged matrix in a
pipeline, an array that is empty.
"""

from __future__ import annotations

import numpy as np

from snap import *

T = 64


@kernel
@requires(grid[1], block[1], thread[T], where=lambda n, x, y: (len(x) >= n, len(y) >= n))
def smooth(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1]):
    """y[i] = x[i - 1] + x[i] + x[i + 1], zero outside: nothing outside of x is read, and no thread takes another way."""
    i: int @ thread[1] = id()
    with partition(y, p=thread[1]) as out, group(block[1]):
        s: shared(float[T + 2])
        t: int @ thread[1] = id()
        with partition(s, p=thread[1], offset=t) as mine:
            async_copy(mine[0], x[i - 1], valid=i >= 1 and i <= n)
            with group(thread[1]):
                if t < 2:
                    async_copy(mine[T], x[i - 1 + T], valid=i - 1 + T < n)
        with group(thread[1]):
            if i < n:
                out[i] = s[t] + s[t + 1] + s[t + 2]


@kernel
@requires(grid[1], block[1], thread[T], where=lambda M, N, blocks, y: (len(y) >= M, N <= 2**28, blocks <= 2**27))
def ragged(x: ptr(const(float), (M, 4 * N)) @ grid[1], y: ptr(float) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    """Sums of rows, 16 of them a stage, T / 16 threads a row; what lies outside of the matrix comes as zeros, and is added."""
    rows: int @ block[1] = id() * 16
    with partition(y, p=block[1]) as sums, group(block[1]):
        tiles: pipeline(shared(float4[16, 4]), 2)
        t: int @ thread[1] = id()
        row: int @ thread[1] = t / 4
        total: float @ thread[1] = 0.0
        steps: int = (N + 3) / 4
        for k in range(steps + 1):
            if k < steps:
                with stage(tiles, k) as tile_, partition(tile_, p=thread[1], f=lambda j: (row, t % 4 + j)) as mine:
                    column: int @ thread[1] = 4 * k + t % 4
                    async_copy(mine[0], x.view(float4)[rows + row, column], valid=rows + row < M and column < N)
            if k >= 1:
                with stage(tiles, k - 1) as tile_:
                    v: float4 @ thread[1] = tile_[row, (t + 1) % 4]
                    total += v.x + v.y + v.z + v.w
        total += intrinsic.shfl_xor(total, 1)
        total += intrinsic.shfl_xor(total, 2)
        with partition(sums, p=thread[1]) as one, group(thread[1]):
            if t % 4 == 0 and rows + row < M:
                one[rows + row] = total


@kernel
@requires(grid[1], block[1], thread[T], where=lambda blocks, there, y: (len(there) >= 64 * blocks, len(y) >= 64 * blocks))
def nothing(x: ptr(const(i64)) @ grid[1], there: ptr(const(int)) @ grid[1], y: ptr(i64) @ grid[1]):
    """The condition may be an integer, and of memory; x may be empty."""
    i: int @ thread[1] = id()
    with partition(y, p=thread[1], offset=i) as out, group(block[1]):
        s: shared(i64[T])
        with partition(s, p=thread[1], offset=id()) as mine:
            with trust("`there` is zero for elements that x does not have"):
                async_copy(mine[0], x[i + 7], valid=there[i])
            out[0] = mine[0]


def check():
    rng = np.random.default_rng(8)
    for n in (1, T - 1, T, T + 1, 3 * T - 1):
        blocks = -(-n // T)
        x, y = rng.integers(-9, 9, n).astype(np.float32), np.zeros(n, np.float32)
        padded = np.pad(x, 1)
        wanted = padded[:-2] + padded[1:-1] + padded[2:]
        smooth[blocks](x, y, n)
        np.testing.assert_array_equal(y, wanted)
        assert not smooth.races(x, y, n, blocks=blocks, seeds=3)
        for seed in range(3):
            y[:] = 0
            smooth.launch(x, y, n, blocks=blocks, seed=seed)
            np.testing.assert_array_equal(y, wanted)

    for M, N in ((16, 4), (3, 1), (37, 7)):
        x, y = rng.integers(-9, 9, (M, 4 * N)).astype(np.float32), np.zeros(M, np.float32)
        for seed in (None, 1, 2):
            y[:] = 0
            ragged.launch(x, y, M, N, blocks=-(-M // 16), seed=seed)
            np.testing.assert_array_equal(y, x.sum(axis=1))
        assert not ragged.races(x, y, M, N, blocks=-(-M // 16), seeds=3)

    y = np.full(T, 5, np.int64)
    for seed in (None, 1):
        nothing.launch(np.zeros(0, np.int64), np.zeros(T, np.int32), y, blocks=1, seed=seed)
        assert not y.any()
