"""Buffers that iterations take in turn: one barrier an iteration is enough, since whoever writes a buffer again has met the others in between.
"""

from __future__ import annotations

import numpy as np

from snap import *

T = 64


@kernel(threads=T, where=lambda blocks, x: (len(x) >= 64, blocks == 1))
def ping_pong(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[2, T])
        t: int @ thread[1] = id()
        v: int @ thread[1] = x[t]
        for r in range(n):
            with each(thread, s):
                s[r % 2, t] = v
            v = s[r % 2, (t + 1) % T] + r
        with each(thread, x):
            x[t] = v


@kernel(threads=T, where=lambda blocks, x: (len(x) >= 64, blocks == 1))
def ring(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[3 * T])
        t: int @ thread[1] = id()
        v: int @ thread[1] = x[t]
        r: int = 0
        while r < n:
            with each(thread, s):
                s[r % 3 * T + t] = v
            v, r = s[r % 3 * T + (t + 1) % T] + r, r + 1
        with each(thread, x):
            x[t] = v


def check():
    for kernel in (ping_pong, ring):
        assert [point.kind for point in kernel.syncs()] == ["block"]
        for n in (0, 1, 2, 5):
            x = np.arange(T, dtype=np.int32) ** 2 % 71
            want = np.roll(x, -n) + sum(range(n))
            kernel[1](x, n)
            np.testing.assert_array_equal(x, want)
        assert not kernel.races(x, 5, blocks=1, seeds=10)
