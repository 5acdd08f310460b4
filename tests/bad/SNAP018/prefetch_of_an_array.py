"""A prefetch names an element."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1]):
    with group(block[1]):
        intrinsic.prefetch(x)  #~ SNAP018
