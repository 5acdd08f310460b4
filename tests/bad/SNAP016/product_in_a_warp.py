"""A warpgroup multiplies together; a warp alone cannot."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def multiply(x: ptr(const(bf16), (M, 64)) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            a: shared(bf16[64, 64], swizzle=128)
            b: shared(bf16[128, 64], swizzle=128)
            acc: float[64] @ thread[1]
            with group(warp):
                wgmma(acc, a, b)  #~ SNAP016
