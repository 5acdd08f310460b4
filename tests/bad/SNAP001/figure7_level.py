"""Figure 7, first example: there is no block inside a group of threads."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        with group(thread[2]):
            with group(block[1]):  #~ SNAP001
                pass
