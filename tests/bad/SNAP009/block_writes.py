"""A whole block would write one element."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(out, p=block[1], offset=b) as cell:
            with group(block[1]):
                cell[0] = 1  #~ SNAP009
