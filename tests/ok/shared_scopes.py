"""Shared arrays end with their block, and the next one takes their bytes; calls stack theirs on top; smem= counts the peak."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(block[1], thread[64], smem=256)
def reversed_in_block(v: int @ thread[1]) -> int @ thread[1]:
    s: shared(int[64])
    t: int @ thread[1] = id()
    with partition(s, p=thread[1], offset=t) as mine:
        mine[0] = v
    return s[63 - t]


@kernel
@requires(grid[1], block[1], thread[64], smem=512)
def reuse(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
                v: int @ thread[1] = i
                for round in range(2):
                    if round == 0:
                        a: shared(int[128])
                        with partition(a, p=thread[1], f=lambda k: 2 * t + k) as pair:
                            pair[0] = v
                            pair[1] = -v
                        v = a[127 - t]
                    else:
                        b: shared(int[64])
                        with partition(b, p=thread[1], offset=t) as slot:
                            slot[0] = v
                        v = b[(t + 1) % 64] + reversed_in_block(v)
                mine[0] = v


def check():
    out = np.zeros(128, np.int32)
    reuse[2](out)
    for b in range(2):
        i = 64 * b + np.arange(64)
        pairs = np.stack([i, -i], axis=1).reshape(-1)
        v = pairs[127 - np.arange(64)]
        v = np.roll(v, -1) + v[::-1]
        np.testing.assert_array_equal(out[64 * b : 64 * b + 64], v)
