"""A TMA prefetch is issued by a block, or by threads of one."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(float), (64, 64)) @ grid[1]):
    intrinsic.prefetch(x, x, at=(0, 0))  #~ SNAP016
