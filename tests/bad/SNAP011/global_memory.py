"""Nothing orders the branches, whatever the index functions say."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(out, p=block[1], offset=64 * b) as of_block:
            with group(block[1]):
                match split(thread):
                    case 32:
                        t: int @ thread[1] = id()
                        with partition(of_block, p=thread[1], offset=t) as mine:
                            mine[0] = 1
                    case 32:
                        t: int @ thread[1] = id()
                        with partition(of_block, p=thread[1], offset=32 + t) as mine:  #~ SNAP011
                            mine[0] = 2
