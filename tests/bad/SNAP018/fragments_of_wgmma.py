"""`wgmma` adds to an accumulator of 64 rows, and takes A of 64 rows in registers."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def example():
    with group(block[1]):
        left: shared(bf16[64, 64], swizzle=128)
        right: shared(bf16[64, 64], swizzle=128)
        c: fragment.C(float[64, 64]) @ thread[1]
        two: fragment.C(float[64, 32])[2] @ thread[1]
        few: fragment.C(float[16, 8])[8] @ thread[1]
        a: fragment.A(bf16[64, 64]) @ thread[1]
        odd: fragment.A(float[64, 64]) @ thread[1]
        out: shared(float[64, 32], swizzle=128)
        with group(warpgroup):
            wgmma(odd, left, right)  #~ SNAP018
            wgmma(a, left, right)  #~ SNAP018
            wgmma(c, c, right)  #~ SNAP018
            wgmma(two, left, right)  #~ SNAP018
            wgmma(few, left, right)  #~ SNAP018
        with partition(out, p=warpgroup) as mine, group(warpgroup):
            store_acc(mine, odd)  #~ SNAP018
