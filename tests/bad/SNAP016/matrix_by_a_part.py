"""Parts of a warp shuffle, vote and reduce; the tensor core's product is of 32 lanes."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float)):
    a: float[4] @ thread[1]
    b: float[2] @ thread[1]
    c: float[4] @ thread[1]
    with group(thread[16]):
        intrinsic.mma(a, b, c, out=c)  #~ SNAP016
