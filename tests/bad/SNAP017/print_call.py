"""There is no `print`; the message names what to do instead."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(int)) @ grid[1]):
    with group(thread[1]):
        print("hello")  #~ SNAP017
