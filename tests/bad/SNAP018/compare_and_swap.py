"""A compare-and-swap takes what it expects, and what it puts in its place."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(lock: ptr(int) @ grid[1]):
    with group(thread[1]):
        atomic.cas(lock, 0, 1)  #~ SNAP018
