"""Each thread gets its own ticket; the block has no single one."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(ticket: ptr(int) @ grid[1]):
    with group(block[1]):
        next: int @ block[1] = atomic.add(ticket, 0, 1)  #~ SNAP006
