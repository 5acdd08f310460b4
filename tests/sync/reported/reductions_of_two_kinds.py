"""Adding and taking the larger do not commute: the second waits for the first."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def k(y: ptr(int, (1, 64)) @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            t: int @ thread[1] = id()
            s: shared(int[64])
            u: shared(int[64])
            with partition(s, p=thread[1], offset=t) as c, partition(u, p=thread[1], offset=t) as d:
                c[0] = 5
                d[0] = 7
            async_reduce(y, s, at=(0, 0), op="add")
            async_reduce(y, u, at=(0, 0), op="max")


SEEDS = 20  # few of them take the two in the other order


def arguments():
    return [np.ones((1, 64), np.int32)*4]
