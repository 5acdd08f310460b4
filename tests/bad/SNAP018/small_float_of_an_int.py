"""The bits of a float of 8 bits lie in u8."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example():
    with group(warp):
        i: int @ thread[1] = id()
        x: float @ thread[1] = from_e5m2(i)  #~ SNAP018
