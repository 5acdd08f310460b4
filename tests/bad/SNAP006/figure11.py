"""Figure 11: threads of a block would take different ways around a barrier."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def example(a: ptr(const(float)) @ grid[1]):
    with group(grid[1]):
        flag: bool @ thread[1] = a[id()] > 0.0
        with group(block[1]):
            if flag:  #~ SNAP006
                intrinsic.syncthreads()
