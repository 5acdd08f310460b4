"""The tile belongs to the block, and each of its warps would copy it again."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def load(x: ptr(const(float), (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            s: shared(float[32, 32])
            with group(warp):
                async_copy(s, x, at=(0, 0))  #~ SNAP009
