"""A claim is for one thread, and the group is of all of them."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(float) @ grid[1]):
    with partition(out, p=block[1]) as own, group(block[1]):
        with claim(own, p=thread[1]) as cell, group(thread[1]):
            cell[0] = 1.0  #~ SNAP014
