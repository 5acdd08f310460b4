"""A function for blocks of 256 threads is called by a block of 128."""

from __future__ import annotations

from snap import *


@device
@requires(block[1], thread[256])
def block_barrier():
    intrinsic.syncthreads()


@kernel
@requires(grid[1], block[1], thread[128])
def example(n: int @ grid[1]):
    with group(block[1]):
        block_barrier()  #~ SNAP008
