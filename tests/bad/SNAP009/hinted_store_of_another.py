"""A store with a cache hint writes as every store does: memory that was handed out to the threads."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(y: ptr(int) @ grid[1]):
    with group(block[1]):
        i: int @ thread[1] = id()
        intrinsic.store(y[i], i, cache="cs")  #~ SNAP009
