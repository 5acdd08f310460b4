"""The grid promises a multiple of one block, not of two."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        with group(block[2]):  #~ SNAP002
            pass
