"""Floats do not shift."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(float)) @ grid[1]):
    with group(thread[1]):
        v: float = x[0] << 2  #~ SNAP018
