"""What one block wrote another reads: that takes a grid barrier, and the launch is not cooperative."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(a: ptr(int) @ grid[1], b: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(a, p=thread[1], offset=i) as mine:
            mine[0] = i
        with partition(b, p=thread[1], offset=i) as mine:
            mine[0] = a[n - 1 - i]  #~ SNAP020
