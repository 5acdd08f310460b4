"""The grid's barrier needs a cooperative launch."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(a: ptr(const(int)) @ grid[1]):
    with group(grid[1]):
        intrinsic.sync_grid()  #~ SNAP020
