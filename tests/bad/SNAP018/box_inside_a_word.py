"""In its row a box begins at a multiple of 16 bytes."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def odd(x: ptr(const(float), (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            s: shared(float[4, 8])
            async_copy(s, x, at=(0, -2))  #~ SNAP018
