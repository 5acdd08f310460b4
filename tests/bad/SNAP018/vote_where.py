"""`where=` is for reductions: a vote already takes a condition."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(const(int)), out: ptr(int)):
    with each(warp):
        v: int @ thread[1] = x[0]
        some: bool = intrinsic.any(v > 3, where=v < 9)  #~ SNAP018
