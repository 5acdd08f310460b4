"""Shared memory belongs to the block until it is handed out."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1]):
    with group(block[1]):
        s: shared(int[64])
        t: int @ thread[1] = id()
        s[t] = x[t]  #~ SNAP009
