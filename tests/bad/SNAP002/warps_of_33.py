"""33 threads hold no whole number of warps."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[33])
def example(x: ptr(const(int)) @ grid[1]):
    with group(block[1]):
        with group(warp):  #~ SNAP002
            pass
