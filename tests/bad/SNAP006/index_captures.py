"""What places a block's part may not differ inside the block."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=block[1], f=lambda k: i + k) as part:  #~ SNAP006
            pass
