"""128 + 64 + 128 threads of a block of 256."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        match split(thread):
            case 128:
                pass
            case 64:
                pass
            case 128:  #~ SNAP003
                pass
