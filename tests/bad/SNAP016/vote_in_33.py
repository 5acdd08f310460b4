"""A block of 33 threads does not consist of warps."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[33])
def example(x: ptr(const(int)) @ grid[1]):
    with group(block[1]):
        t: int @ thread[1] = id()
        hit: bool @ thread[1] = intrinsic.any(x[t] > 0)  #~ SNAP016
