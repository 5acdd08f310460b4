"""One array goes in under two names, and one of them may be written."""

from __future__ import annotations

from snap import *


@device
@requires(block[1], thread[64])
def shift(src: ptr(const(int)) @ block[1], dst: ptr(int) @ block[1]):
    t: int @ thread[1] = id()
    with partition(dst, p=thread[1], offset=t) as mine:
        mine[0] = src[(t + 1) % 64]


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        s: shared(int[64])
        shift(s, s)  #~ SNAP015
