"""Words that live elsewhere."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            mine[0] = math.exp(mine[0])  #~ SNAP019
            mine[0] = bitcast(i, float)  #~ SNAP019
