"""A warp cannot declare a variable for the block."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(warp):
        total: int @ block[1] = 0  #~ SNAP005
