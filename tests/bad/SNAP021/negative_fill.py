"""Fills of a pipeline are numbered from 0; there is none before the first."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as out:
            with group(block[1]):
                tiles: pipeline(shared(int[64]), 2)
                t: int @ thread[1] = id()
                with stage(tiles, 0) as s:
                    with partition(s, p=thread[1], offset=t) as mine:
                        async_copy(mine[0], x[i])
                with stage(tiles, -1) as s:  #~ SNAP021
                    out[0] = s[63 - t]
