"""Five blocks of 512 threads are more than a multiprocessor holds."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[512], resident=5)  #~ SNAP018
def example(out: ptr(int) @ grid[1]):
    pass
