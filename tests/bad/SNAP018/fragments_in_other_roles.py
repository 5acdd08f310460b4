"""The operands of `mma` are A, B, C, and its result is an accumulator."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example():
    with group(warp):
        a: fragment.A(bf16[16, 16]) @ thread[1]
        b: fragment.B(bf16[16, 8]) @ thread[1]
        c: fragment.C(float[16, 8]) @ thread[1]
        intrinsic.mma(c, b, a, out=a)  #~ SNAP018
        intrinsic.mma(b, a, c, out=c)  #~ SNAP018
        x: fragment.A(f64[16, 8]) @ thread[1]
        y: fragment.B(f64[8, 8]) @ thread[1]
        z: fragment.C(f64[16, 8]) @ thread[1]
        intrinsic.mma(x, y, z, out=x)  #~ SNAP018
        intrinsic.mma(x[0], x[1], x[2], x[3], y, x, out=z)  #~ SNAP018
        intrinsic.mma(a[0], a[1], a[2], a[3], a, c, out=c)  #~ SNAP018
