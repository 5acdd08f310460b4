"""A thread cannot break out of its block's loop."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1]):
    with group(block[1]):
        t: int @ thread[1] = id()
        for i in range(10):
            with group(thread[1]):
                if x[i] == t:
                    break  #~ SNAP007
