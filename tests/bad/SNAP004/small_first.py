"""384 threads may be split 256 + 128, not 128 + 256."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[384])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        match split(thread):
            case 128:
                pass
            case 256:  #~ SNAP004
                pass
