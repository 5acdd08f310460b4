"""`mma` is for a warp, `wgmma` for a warpgroup, and each takes one fragment."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example():
    with group(warp):
        c: fragment.C(float[16, 8]) @ thread[1]
        d: fragment.C(float[64, 64]) @ thread[1]
        two: fragment.C(float[16, 8])[2] @ thread[1]
        a: fragment.A(bf16[16, 16]) @ thread[1]
        b: fragment.B(bf16[16, 8]) @ thread[1]
        intrinsic.mma(a, b, d, out=d)  #~ SNAP018
        intrinsic.mma(a, b, two, out=two)  #~ SNAP018
        intrinsic.mma(a, b, c, out=two[1])
        intrinsic.mma(a, b, c, out=d)  #~ SNAP018
