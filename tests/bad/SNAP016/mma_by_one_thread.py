"""A tensor-core instruction belongs to a warp."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(out: ptr(float) @ grid[1]):
    with group(thread[1]):
        a: float[4]
        b: float[2]
        c: float[4]
        intrinsic.mma(a, b, c, out=c)  #~ SNAP016
