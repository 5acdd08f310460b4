"""What a box is loaded from is written in the same kernel: nothing says when the box has been read."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def k(x: ptr(float, (M, 32)) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(x, p=block[1], f=lambda i, j: (i, j)) as xb:
            with group(block[1]):
                row: shared(float[1, 32])
                t: int @ thread[1] = id()
                async_copy(row, xb, at=(0, 0))  #~ SNAP020
                with partition(xb, p=thread[1], f=lambda i: (i, t)) as mine:
                    mine[0] = 2.0 * row[0, 31 - t]
