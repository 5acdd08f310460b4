"""Boxes in the background: a tile loaded by the block and read by its threads; a pipeline of them; slots with names of their own; sums added to global memory."""

from __future__ import annotations

import numpy as np

import snap
from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def transpose(x: ptr(const(float), (M, N)) @ grid[1], y: ptr(float, (N, M)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        r: int @ block[1] = id() / ((N + 31) / 32) * 32
        q: int @ block[1] = id() % ((N + 31) / 32) * 32
        with partition(y, p=block[1], f=lambda i, j: (q + i, r + j)) as yb:
            with group(block[1]):
                s: shared(float[32, 32])
                t: int @ thread[1] = id()
                async_copy(s, x, at=(r, q))
                with partition(yb, p=thread[1], f=lambda i: (t / 32 + 8 * i, t % 32)) as mine:
                    with group(thread[1]):
                        for i in range(4):
                            if q + t / 32 + 8 * i < N and r + t % 32 < M:
                                mine[i] = s[t % 32, t / 32 + 8 * i]


@kernel
@requires(grid[1], block[1], thread[128])
def column_sums(x: ptr(const(float), (M, 128)) @ grid[1], sums: ptr(float, (1, 128)) @ grid[1], M: int @ grid[1]):
    """Each block takes 64 rows in boxes of 16, one in flight while the one before is added up."""
    with group(grid[1]):
        r: int @ block[1] = id() * 64
        with group(block[1]):
            rows: pipeline(shared(float[16, 128]), 2)
            total: shared(float[128])
            t: int @ thread[1] = id()
            acc: float @ thread[1] = 0.0
            for k in range(5):
                if k < 4:
                    with stage(rows, k) as s:
                        async_copy(s, x, at=(r + 16 * k, 0))
                if k >= 1:
                    with stage(rows, k - 1) as s:
                        for i in range(16):
                            acc += s[i, t]
            with partition(total, p=thread[1], offset=t) as mine:
                mine[0] = acc
            async_reduce(sums, total, at=(0, 0), op="add")


@kernel
@requires(grid[1], block[1], thread[160])
def scaled(x: ptr(const(float), (M, 128)) @ grid[1], y: ptr(float, (M, 128)) @ grid[1], M: int @ grid[1]):
    """A warp loads, four warps use; two slots with names, taken in turn."""
    with group(grid[1]):
        r: int @ block[1] = id() * 32
        with partition(y, p=block[1], f=lambda i, j: (r + i, j)) as yb:
            with group(block[1]):
                even: shared(float[4, 128])
                odd: shared(float[4, 128])
                t: int @ thread[1] = id()
                with partition(yb, p=thread[1], f=lambda i: (i, t)) as mine:
                    for k in range(0, 8, 2):
                        with claim(even, p=thread[32]) as e:
                            match split(thread, 128, 32):
                                case 0:
                                    pass
                                case 1:
                                    async_copy(e, x, at=(r + 4 * k, 0))
                        with claim(odd, p=thread[32]) as o:
                            match split(thread, 128, 32):
                                case 0:
                                    pass
                                case 1:
                                    async_copy(o, x, at=(r + 4 * k + 4, 0))
                        with claim(even, p=thread[128]) as e:
                            match split(thread, 128, 32):
                                case 0:
                                    for i in range(4):
                                        mine[4 * k + i] = 2 * e[i, t]
                                case 1:
                                    pass
                        with claim(odd, p=thread[128]) as o:
                            match split(thread, 128, 32):
                                case 0:
                                    for i in range(4):
                                        mine[4 * k + 4 + i] = 3 * o[i, t]
                                case 1:
                                    pass


@kernel
@requires(grid[1], block[1], thread[96])
def relay(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1], n: int @ grid[1]):
    """No box anywhere: a warp writes, two warps read, in turn through two slots."""
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yb:
            with group(block[1]):
                q: pipeline(shared(int[64]), 2)
                t: int @ thread[1] = id()
                with partition(yb, p=thread[1], f=lambda i: 64 * i + t) as mine:
                    for k in range(n):
                        with stage(q) as s:
                            with claim(s, p=thread[32]) as fill:
                                match split(thread, 64, 32):
                                    case 0:
                                        pass
                                    case 1:
                                        l: int @ thread[1] = id()
                                        with partition(fill, p=thread[1], f=lambda i: 32 * i + l) as cell:
                                            cell[0] = x[64 * k + l] + 1
                                            cell[1] = x[64 * k + 32 + l] + 1
                            with claim(s, p=thread[64]) as use:
                                match split(thread, 64, 32):
                                    case 0:
                                        mine[k] = use[63 - t]
                                    case 1:
                                        pass


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
    assert not snap.races(column_sums, x, sums, 64, blocks=1, seeds=4)
    assert not snap.races(scaled, x, y, 64, blocks=2, seeds=4)
    assert not snap.races(relay, u, v, 5, blocks=1, seeds=4)
    assert not snap.races(transpose, x, np.zeros((128, 64), np.float32), 64, 128, blocks=4, seeds=2)
