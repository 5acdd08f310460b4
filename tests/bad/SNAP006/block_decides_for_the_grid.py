"""What each block has found is not what the grid has found."""

from __future__ import annotations

from snap import *


@kernel(threads=64, cooperative=True)
def example(x: ptr(const(float)), out: ptr(float)):
    i: int @ thread[1] = id()
    found: bool @ block[1] = intrinsic.any_block(x[i] > 1.0)
    if found:  #~ SNAP006
        intrinsic.sync_grid()
