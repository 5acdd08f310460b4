"""Parts of shared memory that overlap: one half of the block writes what the other reads as one value."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def example():
    with group(block[1]):
        s: shared(int[96])
        q: int @ thread[64] = id()
        with partition(s, p=thread[64], offset=32 * q) as part:
            with group(thread[64]):
                t: int @ thread[1] = id()
                u: int = part[0]  #~ SNAP006
                with partition(part, p=thread[1], offset=t) as mine:
                    mine[0] = u
