"""Figure 10: a thread writes a variable of its block."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        x: int @ block[1] = 0
        y: int @ thread[1] = id()
        with group(thread[1]):
            x = y  #~ SNAP005 SNAP006
