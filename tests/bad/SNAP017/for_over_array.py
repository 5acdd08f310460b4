"""Loops run over ranges."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(int)) @ grid[1]):
    with group(thread[1]):
        for v in x:  #~ SNAP017
            pass
