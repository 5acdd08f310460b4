"""Four boxes are loaded before a loop that uses n of them."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def ahead(x: ptr(const(int), (64, 32)) @ grid[1], y: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as out:
            with group(block[1]):
                rows: pipeline(shared(int[1, 32]), 4)
                t: int @ thread[1] = id()
                total: int @ thread[1] = 0
                for k in range(4):
                    with stage(rows, k) as row:
                        async_copy(row, x, at=(k, 0))  #~ SNAP021
                for k in range(n):
                    with stage(rows, k) as row:
                        total += row[0, 31 - t]
                    if k + 4 < n:
                        with stage(rows, k + 4) as row:
                            async_copy(row, x, at=(k + 4, 0))
                out[0] = total
