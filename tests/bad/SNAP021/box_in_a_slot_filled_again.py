"""With two slots, fill k lies where fill k - 2 did."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(x: ptr(const(int), (n, 64)) @ grid[1], out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                rows: pipeline(shared(int[1, 64]), 2)
                t: int @ thread[1] = id()
                for k in range(n + 2):
                    if k < n:
                        with stage(rows, k) as row:
                            async_copy(row, x, at=(k, 0))  #~ SNAP021
                    if k >= 2:
                        with stage(rows, k - 2) as row:
                            mine[0] += row[0, 63 - t]
