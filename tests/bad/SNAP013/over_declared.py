"""1024 bytes are declared, 1280 are used."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32], smem=1024)
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        a: shared(float[16 * 8])
        b: shared(float[8 * 8])
        c: shared(float[16 * 8])  #~ SNAP013
