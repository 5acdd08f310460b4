"""Both halves of the block lower the same shared array at the same time."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        s: shared(int[64])
        t: int @ thread[1] = id()
        match split(thread):
            case 32:
                with partition(s, p=thread[1], offset=t) as mine:
                    mine[0] = 1
            case 32:
                with partition(s, p=thread[1], offset=t) as mine:  #~ SNAP011
                    mine[0] = 2
