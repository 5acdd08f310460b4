"""A thread sleeps for a millisecond at most: longer waits are loops."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(ready: ptr(u32) @ grid[1]):
    with group(thread[1]):
        while atomic.load(ready, 0) == u32(0):
            intrinsic.nanosleep(5_000_000)  #~ SNAP018
