"""A tile is filled as far as there is something to copy, and read as a whole."""

from __future__ import annotations

from snap import *


@kernel(threads=64, proved=True, where=lambda x, y, n, blocks: (0 <= n <= 64, len(x) >= n, len(y) >= 64, blocks == 1))
def example(x: ptr(const(float)), y: ptr(float), n: int):
    with each(block, y):
        s: shared(float[64])
        with each(thread, s) as t:
            if t < n:
                s[t] = x[t]
        with each(thread, y) as t:
            y[t] = s[63 - t]  #~ SNAP024
