"""A box that is written may end outside of its array, but not begin before it."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def halo(x: ptr(const(float), (M, N)) @ grid[1], y: ptr(float, (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j), disjoint=True) as part:
            with group(block[1]):
                s: shared(float[4, 8])
                async_copy(s, x, at=(-2, -8))
                async_copy(part, s, at=(-2, 0))  #~ SNAP018
