"""A variable gets its value in a loop that may have no iteration."""

from __future__ import annotations

from snap import *


@kernel(threads=32, proved=True, where=lambda x, y, n, blocks: (0 <= n <= 99, len(x) >= n, len(y) >= 32, blocks == 1))
def example(x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        last: float
        for k in range(n):
            last = x[k]
        y[i] = last  #~ SNAP024
