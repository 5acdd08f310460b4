"""Words of 32 bits do not say what is packed in them."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example():
    with group(warp):
        a: u32[4] @ thread[1]
        b: u32[2] @ thread[1]
        c: int[4] @ thread[1]
        intrinsic.mma(a, b, c, out=c)  #~ SNAP018
