"""Shared memory that atomics touch is not stable."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        hits: shared(int[1])
        t: int @ thread[1] = id()
        with partition(hits, p=thread[1], f=lambda k: k) as mine:
            mine[0] = 0
        atomic.add(hits, 0, t)
        if hits[0] > 100:  #~ SNAP006
            intrinsic.syncthreads()
