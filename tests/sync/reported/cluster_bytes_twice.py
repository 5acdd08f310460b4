"""A function whose array other blocks write is called twice: the bytes are the same, so the cluster waits in between."""

from __future__ import annotations

import numpy as np

from snap import *

BLOCKS, SEEDS = 4, 12


@device
@requires(cluster[1], block[2], thread[32])
def push(v: int @ thread[1]) -> int @ thread[1]:
    b: int @ block[1] = id()
    t: int @ thread[1] = id() % 32
    u: shared(int[32], across=block)
    with partition(u, p=thread[1], f=lambda k: (1 - b, t)) as there:
        there[0] = v
    return u[b, 31 - t]


@kernel
@requires(grid[1], cluster[1], block[2], thread[32])
def k(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(cluster[1]):
                v: int @ thread[1] = push(i)
                mine[0] = v + push(v)


def arguments():
    return [np.zeros(128, np.int32)]
