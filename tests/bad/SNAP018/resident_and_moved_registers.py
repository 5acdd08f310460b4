"""Warpgroups that move registers between them count on all of a multiprocessor's."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[256], resident=2)
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        match split(thread):
            case 128:
                intrinsic.setmaxnreg(232)  #~ SNAP018
            case 128:
                intrinsic.setmaxnreg(24)
