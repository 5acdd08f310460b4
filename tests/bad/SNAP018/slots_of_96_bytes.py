"""A box begins at a multiple of 128 bytes, and every second slot of this pipeline does not."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def load(x: ptr(const(float), (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            rows: pipeline(shared(float[3, 8]), 4)
            for k in range(M / 3):
                with stage(rows) as s:
                    async_copy(s, x, at=(3 * k, 0))  #~ SNAP018
