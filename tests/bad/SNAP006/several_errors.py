"""All errors of a function are reported together."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1]):
    with group(block[1]):
        t: int @ thread[1] = id()
        if t < 3:  #~ SNAP006
            pass
        with group(thread[48]):  #~ SNAP002
            pass
        v: int = unknown  #~ SNAP019
        w: shared(int[64])
        w[t] = v  #~ SNAP009
