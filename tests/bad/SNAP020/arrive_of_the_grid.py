"""The barrier of a grid has no two parts."""

from __future__ import annotations

from snap import *


@kernel(threads=64, cooperative=True)
def k(x: ptr(const(int)), y: ptr(int)):
    intrinsic.arrive()  #~ SNAP020
    with each(thread, y) as i:
        y[i] = x[i]
