"""The classic early exit would leave the other threads of the group behind."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def example(x: ptr(const(int)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with group(thread[1]):
            if i >= n:
                return  #~ SNAP007
        with group(block[1]):
            intrinsic.syncthreads()
