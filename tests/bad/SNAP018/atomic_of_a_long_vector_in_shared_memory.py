"""Vectors of more than 32 bits are added in global memory only."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(float) @ grid[1]):
    with group(block[1]):
        s: shared(float4[8])
        atomic.add(s, 0, float4(1.0))  #~ SNAP018
