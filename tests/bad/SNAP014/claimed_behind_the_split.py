"""A claim stands around the split whose case uses it."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(float) @ grid[1]):
    with partition(out, p=block[1]) as own, group(block[1]):
        match split(thread):
            case 1:
                with claim(own, p=thread[1]) as cell:  #~ SNAP014
                    cell[0] = 1.0
        with group(thread[1]):
            with claim(own, p=thread[1]) as cell:  #~ SNAP014
                cell[0] = 1.0
