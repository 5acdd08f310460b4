"""Blocks that wait for each other by polling, and rest between two looks (`intrinsic.nanosleep`).
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, where=lambda blocks, ready, x: (len(ready) >= blocks + 1, len(x) >= 64 * blocks, blocks == 4))
def in_a_row(ready: ptr(u32), x: ptr(int), pause: int):
    """Block b adds to its part what block b - 1 has left: one after the other, by flags."""
    with each(block, x) as b:
        s: shared(int[1])
        with one(thread, s):
            rest: int @ thread[1] = pause
            while atomic.load(ready, b, order="acquire") == u32(0):
                intrinsic.nanosleep(rest)
                rest = min(2 * rest, 1 << 29)  # longer each time; what is more than a millisecond counts as one
            intrinsic.nanosleep(20)
            s[0] = int(atomic.load(ready, b)) - 1
        i: int @ thread[1] = 64 * b + id()
        with partition(x, p=thread[1], offset=i) as mine:
            mine[0] += s[0]
            intrinsic.nanosleep(u8(i))
        with one(thread):
            atomic.store(ready, b + 1, u32(s[0] + 3), order="release")


def check():
    for pause in (-5, 0, 1 << 20):
        ready, x = np.zeros(5, np.uint32), np.arange(256, dtype=np.int32)
        ready[0] = 1
        in_a_row[4](ready, x, pause)
        np.testing.assert_array_equal(x, np.arange(256) + 2 * (np.arange(256) // 64))
    ready[1:], x = 0, np.arange(256, dtype=np.int32)
    assert not in_a_row.races(ready, x, 100, blocks=4, seeds=2)
