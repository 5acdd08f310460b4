"""A split branch does not own the loop around it."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1]):
    with group(block[1]):
        for i in range(4):
            match split(thread):
                case 32:
                    continue  #~ SNAP007
