"""Two blocks that hold 128 KB each are more than a multiprocessor has."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128], resident=2)
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        a: shared(float[128, 128])
        b: shared(float[128, 128])  #~ SNAP013
