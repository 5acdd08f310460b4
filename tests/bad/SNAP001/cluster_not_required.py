"""A kernel that does not require clusters goes from grid to block directly."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def example(out: ptr(int) @ grid[1]):
    with group(cluster[1]):  #~ SNAP001
        pass
