"""A const pointer does not fit a parameter that may be written."""

from __future__ import annotations

from snap import *


@device
@requires(thread[1])
def clear(dst: ptr(int) @ thread[1]):
    dst[0] = 0


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                clear(mine)  #~ SNAP015
