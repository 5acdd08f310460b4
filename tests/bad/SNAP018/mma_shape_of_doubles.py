"""The number of registers says which shape it is, and there is none with so many."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example():
    with group(warp):
        a: f64[4] @ thread[1]
        b: f64[4] @ thread[1]
        c: f64[4] @ thread[1]
        intrinsic.mma(a, b, c, out=c)  #~ SNAP018
