"""A loop that is written out ends by constants alone."""

from __future__ import annotations

from snap import *


@kernel(threads=32)
def k(y: ptr(int), n: int):
    with each(thread, y) as t:
        for d in unroll((4, 2, 1)):
            z: int[d] = t
            if d == n:
                break  #~ SNAP007
            y[t] += z[d - 1]
