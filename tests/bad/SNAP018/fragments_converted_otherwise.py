"""An accumulator becomes A where both lie in the same threads."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example():
    with group(warp):
        s: fragment.C(float[16, 8])[2] @ thread[1]
        p: fragment.A(bf16[16, 16]) @ thread[1]
        t: fragment.A(float[16, 8]) @ thread[1]
        plain: float[8] @ thread[1]
        w: bf16[8] @ thread[1]
        m: fragment.C(int[16, 8])[2] @ thread[1]
        t = fragment.to_A(s[0])  #~ SNAP018
        p = fragment.to_A(s[0])  #~ SNAP018
        p = fragment.to_A(plain)  #~ SNAP018
        w = fragment.to_A(s)  #~ SNAP018
        p = fragment.to_A(p)  #~ SNAP018
        p = fragment.to_A(m)  #~ SNAP018
        p = fragment.to_A(s, s)  #~ SNAP018
        p += fragment.to_A(s)  #~ SNAP018
        x: float @ thread[1] = fragment.to_A(s)  #~ SNAP018
