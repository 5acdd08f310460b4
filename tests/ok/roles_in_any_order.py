"""Roles in the order of the text, which the compiler places so that each is aligned; and a role of a warpgroup in a block
that has no whole number of them.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=384, where=lambda blocks, counts, x, y: (len(x) >= 256 * blocks, len(y) >= 256 * blocks, len(counts) >= 96 * blocks))
def relay(x: ptr(const(float)), y: ptr(float), counts: ptr(int)):
    with each(block, counts) as b:
        slots: pipeline(shared(float[256]), 2)
        load, count_up, compute = roles(32, 96, 256)  # they lie as compute, load, count_up
        for k in range(3):
            with stage(slots) as s:
                with load(s), each(thread, s) as t:
                    for i in range(t, 256, 32):
                        s[i] = x[b * 256 + i] + float(k)
                with compute(), each(thread, y) as t:
                    y[b * 256 + t] = y[b * 256 + t] + s[t]
        with count_up(), each(thread, counts) as t:
            counts[b * 96 + t] = t


@kernel(threads=192, where=lambda blocks, x: (blocks == 1, len(x) >= 192))
def warpgroup_of_six_warps(x: ptr(int)):
    with each(block, x):
        first, second, work = roles(32, 32, 128)
        with work(), each(warpgroup, x):
            total: int = count(thread[1])
            with each(thread, x) as t:
                x[t] = total + t
        with second(), each(thread, x) as t:
            x[128 + t] = 2
        with first(), each(thread, x) as t:
            x[160 + t] = 1


def check():
    x = np.arange(512, dtype=np.float32)
    y, counts = np.zeros(512, np.float32), np.full(192, -1, np.int32)
    relay[2](x, y, counts)
    np.testing.assert_array_equal(y, 3 * x + 3)
    np.testing.assert_array_equal(counts, np.tile(np.arange(96), 2))
    x = np.zeros(192, np.int32)
    warpgroup_of_six_warps[1](x)
    np.testing.assert_array_equal(x, [*range(128, 256), *[2] * 32, *[1] * 32])
