"""A shuffle is done by whole warps, or by parts of one that a mask can stand for: 24 threads are neither."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[96])
def example(out: ptr(int) @ grid[1]):
    with group(thread[24]):
        v: int @ thread[1] = id()
        v = intrinsic.shfl_xor(v, 8)  #~ SNAP016
