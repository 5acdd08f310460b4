"""Blocks have one dimension."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(int) @ grid[1]):
    with group(block[1]):
        with group(thread[8, 8]):  #~ SNAP018
            pass
