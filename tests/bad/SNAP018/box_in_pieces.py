"""Half of each row is no box: it does not lie in one piece."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def load(x: ptr(const(float), (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            s: shared(float[32, 64])
            async_copy(tile(s, (0, 32), (32, 32)), x, at=(0, 0))  #~ SNAP018
