"""One branch of a split updates what belongs to the whole block."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        rounds: int = 0
        match split(thread):
            case 32:
                rounds += 1  #~ SNAP005
