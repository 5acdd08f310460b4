"""The tensor cores have operands of certain extents, by type."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example():
    with group(warp):
        a: fragment.A(bf16[16, 8]) @ thread[1]  #~ SNAP018
        b: fragment.B(bf16[8, 16]) @ thread[1]  #~ SNAP018
        c: fragment.C(bf16[16, 8]) @ thread[1]  #~ SNAP018
        d: fragment.A(u16[16, 16]) @ thread[1]  #~ SNAP018
        e: fragment.C(float[64, 300]) @ thread[1]  #~ SNAP018
        f: fragment.A(bf16) @ thread[1]  #~ SNAP018
        g: fragment.A @ thread[1]  #~ SNAP018
        h: fragment.A(bf16[16, 16], 2) @ thread[1]  #~ SNAP018
        i: fragment.D(bf16[16, 16]) @ thread[1]  #~ SNAP018
        j: fragment.A(bf16[16, 16])  #~ SNAP018
        k: fragment.A(fragment.A(bf16[16, 16])) @ thread[1]  #~ SNAP018
