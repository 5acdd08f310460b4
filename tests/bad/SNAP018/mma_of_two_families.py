"""Floats of 8 bits are not multiplied by integers."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example():
    with group(warp):
        a: u8[16] @ thread[1]
        b: u8[8] @ thread[1]
        c: float[4] @ thread[1]
        intrinsic.mma(a, b, c, out=c, type=("e4m3", "s8"))  #~ SNAP018
