"""A shuffle needs all 32 lanes."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(thread[16]):
        v: int @ thread[1] = id()
        v = intrinsic.shfl_xor(v, 8)  #~ SNAP016
