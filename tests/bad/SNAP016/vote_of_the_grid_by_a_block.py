"""A block alone does not decide for the grid: the others would never come to the vote."""

from __future__ import annotations

from snap import *


@kernel(threads=64, cooperative=True)
def example(x: ptr(const(float)), out: ptr(float)):
    i: int @ thread[1] = id()
    with each(block):
        going: bool = intrinsic.any_grid(x[i] > 1.0)  #~ SNAP016
