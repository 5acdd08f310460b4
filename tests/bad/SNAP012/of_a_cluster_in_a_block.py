"""Memory that is across the blocks of a cluster is declared where the cluster acts as one."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], cluster[1], block[2], thread[256])
def halo(x: ptr(const(float)) @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            edge: pipeline(shared(float[2, 256], across=block), 2)  #~ SNAP012
