"""Cache operators are of global memory: shared memory has no cache before it."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1]):
    with group(block[1]):
        s: shared(int[64])
        i: int @ thread[1] = id()
        v: int @ thread[1] = intrinsic.load(s[i], cache="cs")  #~ SNAP018
