"""An atomic of one block and a plain read of another have no order, cooperative or not: the blocks do not meet between the two."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32], cooperative=True)
def example(total: ptr(int) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                atomic.add(total, 0, 1)
                mine[0] = total[0]  #~ SNAP020
