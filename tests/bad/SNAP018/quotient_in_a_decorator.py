"""Decorators are Python: `/` of two integers is a float there."""

from __future__ import annotations

from snap import *

THREADS = 256


@kernel
@requires(grid[1], block[1], thread[THREADS / 2])  #~ SNAP018
def example(out: ptr(float) @ grid[1]):
    pass
