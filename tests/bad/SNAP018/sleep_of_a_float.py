"""Nanoseconds are counted: an integer."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(float)) @ grid[1]):
    with group(thread[1]):
        intrinsic.nanosleep(x[0] * 1.0e3)  #~ SNAP018
