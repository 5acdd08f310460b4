"""Nothing says how long the arrays are."""

from __future__ import annotations

from snap import *


@kernel(threads=32, proved=True)  #~ SNAP027
def example(x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = x[i]
