"""Memory cannot be lowered to groups the class does not hold."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[33])
def example(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        with partition(out, p=warp, f=lambda k: k) as part:  #~ SNAP005
            pass
