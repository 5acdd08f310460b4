"""TMA prefetches from global memory."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(float), (64, 64)) @ grid[1]):
    with group(block[1]):
        s: shared(float[16, 64])
        intrinsic.prefetch(x, s, at=(0, 0))  #~ SNAP018
