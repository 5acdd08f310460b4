"""A pointer that is written through must come at exactly the privilege asked for."""

from __future__ import annotations

from snap import *


@device
@requires(thread[32])
def clear(dst: ptr(int) @ thread[32]):
    l: int @ thread[1] = id()
    with partition(dst, p=thread[1], offset=l) as mine:
        mine[0] = 0


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        s: shared(int[64])
        with group(warp):
            clear(s)  #~ SNAP015
