"""Inside a block the grid is gone."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        with group(grid[1]):  #~ SNAP001
            pass
