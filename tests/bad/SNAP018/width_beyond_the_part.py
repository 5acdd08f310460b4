"""A shuffle of 8 threads cannot reach 16."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(int)):
    with each(thread[8]):
        v: int @ thread[1] = 1
        v = intrinsic.shfl_xor(v, 1, width=16)  #~ SNAP018
