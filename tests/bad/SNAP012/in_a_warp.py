"""A warp declares shared memory."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(warp):
        s: shared(int[32])  #~ SNAP012
