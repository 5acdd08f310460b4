"""A list comprehension allocates."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(int)) @ grid[1]):
    with group(thread[1]):
        v: int = 0
        squares = [i * i for i in range(4)]  #~ SNAP017
