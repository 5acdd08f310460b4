"""A two-dimensional array takes two indices."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(int), (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    with group(thread[1]):
        v: int = x[3]  #~ SNAP018
