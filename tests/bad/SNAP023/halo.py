"""A shared array has no room for its halo."""

from __future__ import annotations

from snap import *


@kernel(threads=32, proved=True, where=lambda x, by: (len(x) >= 34, 0 <= by <= 1))
def example(x: ptr(const(float)), by: int):
    with each(block):
        s: shared(float[32])
        with each(thread, s) as t:
            s[t + by] = x[t + by]  #~ SNAP023
