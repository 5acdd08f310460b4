"""A fragment is what one thread holds, in registers."""

from __future__ import annotations

from snap import *


@device(warp)
def of_a_warp(
    a: fragment.A(float[16, 8]),  #~ SNAP018
    b: ref(fragment.B(float[8, 8])) @ warp,  #~ SNAP018
    p: ptr(fragment.A(bf16[16, 16])),  #~ SNAP018
    r: ref(fragment.A(float[16, 8])[2]),
):
    r[0] = r[1]
