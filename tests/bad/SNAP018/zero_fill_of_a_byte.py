"""An asynchronous copy that fills with zeros moves 4, 8 or 16 bytes, as every asynchronous copy of an element."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(u8)) @ grid[1], n: int @ grid[1]):
    with group(block[1]):
        t: int @ thread[1] = id()
        s: shared(u8[64])
        with partition(s, p=thread[1], offset=t) as mine:
            async_copy(mine[0], x[t], valid=t < n)  #~ SNAP018
