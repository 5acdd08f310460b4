"""What is lowered cannot be lowered again."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            with partition(x, p=thread[1], offset=i + 1) as next:  #~ SNAP010
                mine[0] = next[0]
