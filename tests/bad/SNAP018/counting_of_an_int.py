"""`atomic.inc` counts in u32."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(int) @ grid[1]):
    with group(block[1]):
        atomic.inc(x, 0, 7)  #~ SNAP018
