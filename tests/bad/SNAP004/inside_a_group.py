"""The second group of 384 starts at thread 384, which 256 does not divide."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[768])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        with group(thread[384]):
            match split(thread):
                case 256:  #~ SNAP004
                    pass
                case 128:
                    pass
