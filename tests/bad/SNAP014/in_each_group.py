"""A claim whose split stands in a group: each half of the block has a first warp."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def example():
    with group(block[1]):
        s: shared(int[32])
        with claim(s, p=thread[32]) as of_warp:
            with group(thread[64]):
                match split(thread):
                    case 32:
                        t: int @ thread[1] = id()
                        with partition(of_warp, p=thread[1], offset=t) as mine:  #~ SNAP014
                            mine[0] = t
