"""Figure 9: 1 + 32 threads fit into 33, but the warp would start at thread 1."""

from __future__ import annotations

from snap import *


@device
@requires(thread[32])
def simple_mma(x: int @ thread[32]):
    pass


@kernel
@requires(grid[1], block[1], thread[33])
def example(out: ptr(int) @ grid[1]):
    with group(thread[33]):
        match split(thread):
            case 1:
                pass
            case 32:  #~ SNAP004
                simple_mma(1)
