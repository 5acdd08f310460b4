"""Element k of A lies elsewhere in its matrix than element k of an accumulator."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example():
    with group(warp):
        a: fragment.A(float[16, 8]) @ thread[1]
        c: fragment.C(float[16, 8]) @ thread[1]
        a = c  #~ SNAP018
        a += c  #~ SNAP018
        x: fragment.A(float[16, 8]) @ thread[1] = c  #~ SNAP018
        plain: float[4] @ thread[1] = c
        a = plain
        s: fragment.C(float[16, 8])[2] @ thread[1]
        p: fragment.A(bf16[16, 16]) @ thread[1]
        p = s  #~ SNAP018
