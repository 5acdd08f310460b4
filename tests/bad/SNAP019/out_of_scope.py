"""A variable ends with its block."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(int)) @ grid[1]):
    with group(thread[1]):
        if x[0] > 0:
            found: int = 1
        v: int = found  #~ SNAP019
