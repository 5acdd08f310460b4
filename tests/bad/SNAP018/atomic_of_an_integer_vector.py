"""Of vectors, those of floats are added."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(int4) @ grid[1]):
    with group(block[1]):
        atomic.add(x, 0, int4(1))  #~ SNAP018
