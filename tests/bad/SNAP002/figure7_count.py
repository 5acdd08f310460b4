"""Figure 7, second example: one block cannot be grouped by two."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            with group(block[2]):  #~ SNAP002
                pass
