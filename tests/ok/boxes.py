"""Boxes in the background: a tile loaded by the block and read by its threads; a pipeline of them; slots with names of their own; sums added to global memory.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=256, where=lambda M, N, blocks: (1 <= N <= 2**30, 1 <= M <= 2**30, blocks <= 2**25))
def transpose(x: ptr(const(float), (M, N)), y: ptr(float, (N, M)), M: int, N: int):
    with each(block, shape=(..., (N + 31) / 32)) as (r, q):
        s: shared(float[32, 32])
        async_copy(s, x, at=(32 * r, 32 * q))
        with each(thread, y, shape=(..., 32)) as (i, j):
            for k in range(4):
                if 32 * q + i + 8 * k < N and 32 * r + j < M:
                    y[32 * q + i + 8 * k, 32 * r + j] = s[j, i + 8 * k]


@kernel(threads=128, where=lambda blocks: blocks <= 2**25)
def column_sums(x: ptr(const(float), (M, 128)), sums: ptr(float, (1, 128)), M: int):
    """Each block takes 64 rows in boxes of 16, one in flight while the one before is added up."""
    with each(block) as b:
        rows, total, acc = pipeline(shared(float[16, 128]), 2), shared(float[128]), registers(0.0)
        t = ids(thread)
        for k in range(5):
            if k < 4:
                with stage(rows, k) as s:
                    async_copy(s, x, at=(64 * b + 16 * k, 0))
            if k >= 1:
                with stage(rows, k - 1) as s:
                    for i in range(16):
                        acc += s[i, t]
        with each(thread, total):
            total[t] = acc
        async_reduce(sums, total, at=(0, 0), op="add")


@kernel(threads=160, where=lambda M, blocks: (M >= 32 * blocks, blocks <= 2**26))
def scaled(x: ptr(const(float), (M, 128)), y: ptr(float, (M, 128)), M: int):
    """A warp loads, four warps use; two slots with names, taken in turn."""
    with each(block) as b:
        r: int = b * 32
        even, odd = shared(float[4, 128]), shared(float[4, 128])
        use, load = roles(128, 32)
        for k in range(0, 8, 2):
            with load(even):
                async_copy(even, x, at=(r + 4 * k, 0))
            with load(odd):
                async_copy(odd, x, at=(r + 4 * k + 4, 0))
            with use(even), each(thread, y) as t:
                for i in range(4):
                    y[r + 4 * k + i, t] = 2 * even[i, t]
            with use(odd), each(thread, y) as t:
                for i in range(4):
                    y[r + 4 * k + 4 + i, t] = 3 * odd[i, t]


@kernel(threads=96, where=lambda blocks, n, x, y: (len(x) >= 64 * n, len(y) >= 64 * n, n <= 2**25, blocks == 1))
def relay(x: ptr(const(int)), y: ptr(int), n: int):
    """No box anywhere: a warp writes, two warps read, in turn through two slots."""
    with each(block):
        q: pipeline(shared(int[64]), 2)
        use, fill = roles(64, 32)
        for k in range(n):
            with stage(q) as s:
                with fill(s), each(thread, s) as l:
                    s[l], s[32 + l] = x[64 * k + l] + 1, x[64 * k + 32 + l] + 1
                with use(s), each(thread, y) as t:
                    y[64 * k + t] = s[63 - t]


def check():
    rng = np.random.default_rng(0)
    for m, n in ((64, 96), (40, 44), (1, 4)):
        x, y = rng.random((m, n), np.float32), np.zeros((n, m), np.float32)
        transpose[-(-m // 32) * -(-n // 32)](x, y, m, n)
        np.testing.assert_array_equal(y, x.T)
    x, sums = rng.integers(-8, 8, (100, 128)).astype(np.float32), np.ones((1, 128), np.float32)
    column_sums[2](x, sums, 100)
    np.testing.assert_array_equal(sums[0], 1 + x.sum(axis=0))
    x, y = rng.random((64, 128), np.float32), np.zeros((64, 128), np.float32)
    scaled[2](x, y, 64)
    np.testing.assert_array_equal(y, x * np.where(np.arange(64) % 8 < 4, 2, 3)[:, None].astype(np.float32))
    u, v = rng.integers(0, 99, 320).astype(np.int32), np.zeros(320, np.int32)
    relay[1](u, v, 5)
    np.testing.assert_array_equal(v, u.reshape(5, 64)[:, ::-1].ravel() + 1)
    assert not column_sums.races(x, sums, 64, blocks=1, seeds=4)
    assert not scaled.races(x, y, 64, blocks=2, seeds=4)
    assert not relay.races(u, v, 5, blocks=1, seeds=4)
    assert not transpose.races(x, np.zeros((128, 64), np.float32), 64, 128, blocks=4, seeds=2)
