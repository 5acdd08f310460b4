"""96 threads do not divide into groups of 64."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[96])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        with group(thread[64]):  #~ SNAP002
            pass
