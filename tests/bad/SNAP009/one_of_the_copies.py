"""Every block holds a copy of this memory: a thread that wrote its own block's would make them differ."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], cluster[1], block[2], thread[256])
def fill(x: ptr(const(float)) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with group(cluster[1]):
            table: shared(float[256], copies=block)
            t: int @ thread[1] = id() % 256
            with partition(table, p=thread[1], offset=t) as mine:
                mine[0] = x[i]  #~ SNAP009
