"""The next fill after those counted is not the one after those numbered."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def sums(x: ptr(const(float), (M, 128)) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            rows: pipeline(shared(float[128]), 2)
            t: int @ thread[1] = id()
            total: float @ thread[1] = 0.0
            for m in range(M):
                with stage(rows) as s:
                    with partition(s, p=thread[1], offset=t) as mine:
                        async_copy(mine[0], x[m, t])
                with stage(rows, m) as s:  #~ SNAP021
                    total += s[127 - t]
