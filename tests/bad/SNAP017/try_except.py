"""Exceptions are Python's, not the GPU's."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(int)) @ grid[1]):
    try:  #~ SNAP017
        pass
    except Exception:
        pass
