"""What is left at the call is less than the callee needs."""

from __future__ import annotations

from snap import *


@device
@requires(block[1], thread[64], smem=512)
def helper(v: int @ thread[1]) -> int @ thread[1]:
    s: shared(int[128])
    t: int @ thread[1] = id()
    with partition(s, p=thread[1], offset=t) as mine:
        mine[0] = v
    return s[63 - t]


@kernel
@requires(grid[1], block[1], thread[64], smem=600)
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        a: shared(int[64])
        t: int @ thread[1] = id()
        v: int @ thread[1] = helper(t)  #~ SNAP013
