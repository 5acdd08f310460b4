"""Half of the block cannot execute the block's barrier."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        match split(thread):
            case 32:
                intrinsic.syncthreads()  #~ SNAP016
