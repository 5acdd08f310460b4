"""Threads in groups of 48 do not tile a block of 64."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        team: int @ thread[48] = id()  #~ SNAP005
