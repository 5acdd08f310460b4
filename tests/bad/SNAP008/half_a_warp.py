"""16 threads call a function that needs a warp."""

from __future__ import annotations

from snap import *


@device
@requires(thread[32])
def warp_sum(v: int @ thread[1]) -> int @ thread[32]:
    return intrinsic.reduce_add(v)


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1]):
    with group(thread[16]):
        s: int @ thread[1] = warp_sum(1)  #~ SNAP008
