"""The size of a shared array is a compile-time constant."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(float)) @ grid[1], n: int @ grid[1]):
    with group(block[1]):
        s: shared(float[n])  #~ SNAP018
