"""A block cannot take a lock: each of its threads would."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(lock: ptr(int) @ grid[1]):
    with group(block[1]):
        while atomic.cas(lock, 0, 0, 1) != 0:  #~ SNAP006
            pass
