"""Shared arrays end with their block, and the next one takes their bytes; calls stack theirs on top; smem= counts the peak."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(block[1], thread[64], smem=256)
def reversed_in_block(v: int @ thread[1]) -> int @ thread[1]:
    s: shared(int[64])
    t: int @ thread[1] = id()
    with each(thread, s):
        s[t] = v
    return s[63 - t]


@kernel(threads=64, smem=512, where=lambda blocks, out: len(out) >= 64 * blocks)
def reuse(out: ptr(int)):
    i: int @ thread[1] = id()
    with each(block):
        t: int @ thread[1] = id()
        v: int @ thread[1] = i
        for round in range(2):
            if round == 0:
                a: shared(int[128])
                with each(thread, a):
                    a[2 * t], a[2 * t + 1] = v, -v
                v = a[127 - t]
            else:
                b: shared(int[64])
                with each(thread, b):
                    b[t] = v
                v = b[(t + 1) % 64] + reversed_in_block(v)
        with each(thread, out):
            out[i] = v


def check():
    out = np.zeros(128, np.int32)
    reuse[2](out)
    for b in range(2):
        i = 64 * b + np.arange(64)
        pairs = np.stack([i, -i], axis=1).reshape(-1)
        v = pairs[127 - np.arange(64)]
        v = np.roll(v, -1) + v[::-1]
        np.testing.assert_array_equal(out[64 * b : 64 * b + 64], v)
