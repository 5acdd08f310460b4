"""A box (TMA) needs no condition: what lies outside of the array comes as zeros."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(float), (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    i: int @ block[1] = id()
    with group(block[1]):
        s: shared(float[16, 16])
        async_copy(s, x, at=(16 * i, 0), valid=16 * i < M)  #~ SNAP018
