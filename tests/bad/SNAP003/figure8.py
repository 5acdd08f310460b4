"""Figure 8: a warp of 32 cannot give away 33."""

from __future__ import annotations

from snap import *


@device
@requires(thread[32])
def simple_mma(x: int @ thread[32]):
    pass


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(thread[32]):
        match split(thread):
            case 32:
                simple_mma(1)
            case 1:  #~ SNAP003
                pass
