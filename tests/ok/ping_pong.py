"""Buffers that iterations take in turn: one barrier an iteration is enough, since whoever writes a buffer again has met the others in between."""

from __future__ import annotations

import numpy as np

import snap
from snap import *

T = 64


@kernel
@requires(grid[1], block[1], thread[T])
def ping_pong(x: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(x, p=block[1], f=lambda i: i) as run:
            with group(block[1]):
                s: shared(int[2, T])
                t: int @ thread[1] = id()
                v: int @ thread[1] = run[t]
                for r in range(n):
                    with partition(s, p=thread[1], f=lambda i: (r % 2, t)) as cell:
                        cell[0] = v
                    v = s[r % 2, (t + 1) % T] + r
                with partition(run, p=thread[1], offset=t) as mine:
                    mine[0] = v


@kernel
@requires(grid[1], block[1], thread[T])
def ring(x: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(x, p=block[1], f=lambda i: i) as run:
            with group(block[1]):
                s: shared(int[3 * T])
                t: int @ thread[1] = id()
                v: int @ thread[1] = run[t]
                r: int = 0
                while r < n:
                    with partition(s, p=thread[1], offset=r % 3 * T + t) as cell:
                        cell[0] = v
                    v = s[r % 3 * T + (t + 1) % T] + r
                    r += 1
                with partition(run, p=thread[1], offset=t) as mine:
                    mine[0] = v


def check():
    for kernel in (ping_pong, ring):
        assert [point.kind for point in kernel.syncs()] == ["block"]
        for n in (0, 1, 2, 5):
            x = np.arange(T, dtype=np.int32) ** 2 % 71
            want = np.roll(x, -n) + sum(range(n))
            kernel[1](x, n)
            np.testing.assert_array_equal(x, want)
        assert not snap.races(kernel, x, 5, blocks=1, seeds=10)
