"""A single thread calls what the whole block must execute."""

from __future__ import annotations

from snap import *


@device
@requires(block[1], thread[256])
def block_barrier():
    intrinsic.syncthreads()


@kernel
@requires(grid[1], block[1], thread[256])
def example(n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with group(thread[1]):
            if i < n:
                block_barrier()  #~ SNAP008
