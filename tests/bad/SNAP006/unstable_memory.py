"""Global memory that other blocks may write does not decide for a block."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(work: ptr(int) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with group(block[1]):
            todo: int = work[b]  #~ SNAP006
