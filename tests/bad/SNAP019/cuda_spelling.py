"""CUDA's built-in variables have other names here."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(int)) @ grid[1]):
    with group(thread[1]):
        i: int = threadIdx  #~ SNAP019
