"""Bytes that a block used for itself are next written by its neighbor."""

from __future__ import annotations

import numpy as np

from snap import *

BLOCKS, SEEDS = 4, 12


@kernel
@requires(grid[1], cluster[1], block[2], thread[32])
def k(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(cluster[1]):
                b: int @ block[1] = id()
                t: int @ thread[1] = id() % 32
                v: int @ thread[1] = i + 1

                with group(block[1]):
                    s: shared(int[32])
                    with partition(s, p=thread[1], offset=t) as m:
                        m[0] = v
                    v = v + s[31 - t]
                u: shared(int[32], across=block)
                with partition(u, p=thread[1], f=lambda k: (1 - b, t)) as m:
                    m[0] = 7 * v
                mine[0] = v + u[b, 31 - t]


def arguments():
    return [np.zeros(128, np.int32)]
