"""How many units a group has of itself is 1, which is never what was meant: units are counted where there are several."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(int)):
    everything: int = count(grid[1])  #~ SNAP018
    blocks: int = count(block[1])
    with each(block, x) as b:
        of_the_grid: int = count(block[1])  #~ SNAP018
        with each(warp):
            itself: int = count(warp)
        with each(thread, x) as t:
            of_the_block: int = count(thread[1])  #~ SNAP018
            x[t] = blocks
