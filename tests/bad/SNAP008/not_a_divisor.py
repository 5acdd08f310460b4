"""96 threads do not divide into the pairs of warps that the function needs."""

from __future__ import annotations

from snap import *


@device
@requires(thread[64])
def pair_of_warps():
    pass


@kernel
@requires(grid[1], block[1], thread[192])
def example(n: int @ grid[1]):
    with group(thread[96]):
        pair_of_warps()  #~ SNAP008
