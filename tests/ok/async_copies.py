"""Elements copied in the background: of 4, 8 and 16 bytes, read by their own thread, by others, in a loop; the next fill of a pipeline."""

from __future__ import annotations

import numpy as np

import snap
from snap import *

T = 64


@kernel
@requires(grid[1], block[1], thread[T])
def own(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1]):
    """Each thread reads what it copied: it waits, nobody else does."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as out:
            with group(block[1]):
                s: shared(int[T])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], offset=t) as mine:
                    async_copy(mine[0], x[i])
                    out[0] = mine[0] + 1


@kernel
@requires(grid[1], block[1], thread[T])
def before_loop(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1], turns: int @ grid[1]):
    """A table, copied once and read by all in a loop."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as out:
            with group(block[1]):
                table: shared(int[T])
                t: int @ thread[1] = id()
                with partition(table, p=thread[1], offset=t) as mine:
                    async_copy(mine[0], x[t])
                v: int @ thread[1] = i % T
                for turn in range(turns):
                    v = table[v]
                out[0] = v


@kernel
@requires(grid[1], block[1], thread[T])
def sizes(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1]):
    """The first n threads copy 16, 8 and 4 bytes each; thread t then reads its neighbour's."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as out:
            with group(block[1]):
                s: shared(float[T, 8])
                t: int @ thread[1] = id()
                with partition(s.view(float4), p=thread[1], f=lambda k: (t, k)) as mine:
                    with group(thread[1]):
                        if t < n:
                            async_copy(mine[0], x.view(float4)[2 * t])
                with partition(s.view(float2), p=thread[1], f=lambda k: (t, k)) as mine:
                    with group(thread[1]):
                        if t < n:
                            async_copy(mine[2], x.view(float2)[4 * t + 2])
                with partition(s, p=thread[1], f=lambda k: (t, k)) as mine:
                    with group(thread[1]):
                        if t < n:
                            async_copy(mine[6], x[8 * t + 6])
                            async_copy(mine[7], x[8 * t + 7])
                total: float @ thread[1] = 0.0
                other: int @ thread[1] = (t + 1) % n
                for k in range(8):
                    total += s[other, k] * float(k + 1)
                out[0] = total


@kernel
@requires(grid[1], block[1], thread[T])
def next_fill(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1], turns: int @ grid[1]):
    """Every turn takes the next of two stages, fills it and reads it."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as out:
            with group(block[1]):
                tiles: pipeline(shared(int[T]), 2)
                t: int @ thread[1] = id()
                v: int @ thread[1] = 0
                for turn in range(turns):
                    with stage(tiles) as s:
                        with partition(s, p=thread[1], offset=t) as mine:
                            async_copy(mine[0], x[turn * T + t])
                        v = v * 3 + s[(t + 1) % T]
                out[0] = v


def check():
    rng = np.random.default_rng(5)
    x = rng.integers(-99, 99, 2 * T).astype(np.int32)
    y = np.zeros_like(x)
    own[2](x, y)
    np.testing.assert_array_equal(y, x + 1)
    assert not snap.races(own, x, y, blocks=2, seeds=4)

    table, turns = rng.permutation(T).astype(np.int32), 5
    before_loop[2](table, y, turns)
    v = np.arange(2 * T) % T
    for _ in range(turns):
        v = table[v]
    np.testing.assert_array_equal(y, v)
    assert not snap.races(before_loop, table, y, turns, blocks=2)

    for n in (T, 7):
        f, g = rng.integers(-9, 9, 8 * T).astype(np.float32), np.zeros(T, np.float32)
        sizes[1](f, g, n)
        np.testing.assert_array_equal(g, f.reshape(T, 8)[(np.arange(T) + 1) % n] @ np.arange(1, 9, dtype=np.float32))
        assert not snap.races(sizes, f, g, n, blocks=1)

    fills, z = rng.integers(-9, 9, 5 * T).astype(np.int32), np.zeros(T, np.int32)
    next_fill[1](fills, z, 5)
    v = np.zeros(T, np.int32)
    for tile in fills.reshape(5, T):
        v = v * 3 + np.roll(tile, -1)
    np.testing.assert_array_equal(z, v)
    assert not snap.races(next_fill, fills, z, 5, blocks=1)
