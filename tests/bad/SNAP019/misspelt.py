"""A misspelt name; the nearest known one is suggested."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(int)) @ grid[1], length: int @ grid[1]):
    with group(thread[1]):
        v: int = lenght + 1  #~ SNAP019
