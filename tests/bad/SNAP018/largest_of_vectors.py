"""Of vectors there is the sum alone."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(half2) @ grid[1]):
    with group(block[1]):
        atomic.max(x, 0, half2(f16(1.0)))  #~ SNAP018
