"""A warp loops as one; a bound that differs by thread would tear it apart."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(lengths: ptr(const(int)) @ grid[1]):
    with group(grid[1]):
        n: int @ thread[1] = lengths[id()]
        with group(warp):
            for i in range(n):  #~ SNAP006
                intrinsic.syncwarp()
