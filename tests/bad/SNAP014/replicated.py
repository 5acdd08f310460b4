"""Claimed by every block's first warp at once: many owners, not one."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        with claim(out, p=thread[32]) as of_warp:  #~ SNAP014
            match split(thread):
                case 32:
                    pass
