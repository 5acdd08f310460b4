"""A load with no hint is written as an index."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1]):
    with group(block[1]):
        i: int @ thread[1] = id()
        v: int @ thread[1] = intrinsic.load(x[i])  #~ SNAP018
