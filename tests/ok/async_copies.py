"""Elements copied in the background: of 4, 8 and 16 bytes, read by their own thread, by others, in a loop; the next fill of a pipeline.
"""

from __future__ import annotations

import numpy as np

from snap import *

T = 64


@kernel(threads=T, where=lambda blocks, x, y: (len(x) >= 64 * blocks, len(y) >= 64 * blocks, blocks <= 2**25))
def own(x: ptr(const(int)), y: ptr(int)):
    """Each thread reads what it copied: it waits, nobody else does."""
    with each(block) as b:
        s: shared(int[T])
        with each(thread, s, y) as t:
            async_copy(s[t], x[b * T + t])
            y[b * T + t] = s[t] + 1


@kernel(threads=T, where=lambda blocks, x, y: (len(x) >= 64, len(y) >= 64 * blocks, blocks <= 2**25))
def before_loop(x: ptr(const(int)), y: ptr(int), turns: int):
    """A table, copied once and read by all in a loop."""
    with each(block) as b:
        table: shared(int[T])
        with each(thread, table) as t:
            async_copy(table[t], x[t])
        with each(thread, y) as t:
            v: int = t
            for turn in range(turns):
                assert 0 <= v < T
                v = table[v]
            y[b * T + t] = v


@kernel(threads=T, where=lambda blocks, n, x, y: (len(x) >= 8 * n, 1 <= n <= 64, len(y) >= 64 * blocks, blocks <= 2**25))
def sizes(x: ptr(const(float)), y: ptr(float), n: int):
    """The first n threads copy 16, 8 and 4 bytes each; thread t then reads its neighbor's."""
    with each(block) as b:
        s: shared(float[T, 8])
        with each(thread, s.view(float4)) as t:
            if t < n:
                async_copy(s[t, 0], x.view(float4)[2 * t])
        with each(thread, s.view(float2)) as t:
            if t < n:
                async_copy(s[t, 2], x.view(float2)[4 * t + 2])
        with each(thread, s) as t:
            if t < n:
                async_copy(s[t, 6], x[8 * t + 6])
                async_copy(s[t, 7], x[8 * t + 7])
        with each(thread, y) as t:
            total: float = 0.0
            for k in range(8):
                total += s[(t + 1) % n, k] * float(k + 1)
            y[b * T + t] = total


@kernel(threads=T, where=lambda blocks, turns, x, y: (len(x) >= 64 * turns, len(y) >= 64 * blocks, turns <= 2**25, blocks <= 2**25))
def next_fill(x: ptr(const(int)), y: ptr(int), turns: int):
    """Every turn takes the next of two stages, fills it and reads it."""
    with each(block) as b:
        tiles, v = pipeline(shared(int[T]), 2), registers(0)
        t = ids(thread)
        for turn in range(turns):
            with stage(tiles) as s:
                with each(thread, s):
                    async_copy(s[t], x[turn * T + t])
                v = v * 3 + s[(t + 1) % T]
        with each(thread, y):
            y[b * T + t] = v


def check():
    rng = np.random.default_rng(5)
    x = rng.integers(-99, 99, 2 * T).astype(np.int32)
    y = np.zeros_like(x)
    own[2](x, y)
    np.testing.assert_array_equal(y, x + 1)
    assert not own.races(x, y, blocks=2, seeds=4)

    table, turns = rng.permutation(T).astype(np.int32), 5
    before_loop[2](table, y, turns)
    v = np.arange(2 * T) % T
    for _ in range(turns):
        v = table[v]
    np.testing.assert_array_equal(y, v)
    assert not before_loop.races(table, y, turns, blocks=2)

    for n in (T, 7):
        f, g = rng.integers(-9, 9, 8 * T).astype(np.float32), np.zeros(T, np.float32)
        sizes[1](f, g, n)
        np.testing.assert_array_equal(g, f.reshape(T, 8)[(np.arange(T) + 1) % n] @ np.arange(1, 9, dtype=np.float32))
        assert not sizes.races(f, g, n, blocks=1)

    fills, z = rng.integers(-9, 9, 5 * T).astype(np.int32), np.zeros(T, np.int32)
    next_fill[1](fills, z, 5)
    v = np.zeros(T, np.int32)
    for tile in fills.reshape(5, T):
        v = v * 3 + np.roll(tile, -1)
    np.testing.assert_array_equal(z, v)
    assert not next_fill.races(fills, z, 5, blocks=1)
