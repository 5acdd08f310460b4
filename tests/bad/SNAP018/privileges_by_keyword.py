"""Privileges are levels with a number in brackets."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid=1, block=1, thread=64)  #~ SNAP018
def example(out: ptr(float) @ grid[1]):
    pass
