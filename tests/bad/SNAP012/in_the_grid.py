"""The grid has no shared memory: blocks have."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        s: shared(int[64])  #~ SNAP012
