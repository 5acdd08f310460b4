"""More than a block can have on any device."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        a: shared(float[256, 256])  #~ SNAP013
