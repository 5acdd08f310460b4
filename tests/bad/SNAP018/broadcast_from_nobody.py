"""A grid has at least the one block that is promised: thread 64 may not be there."""

from __future__ import annotations

from snap import *


@kernel(threads=64, cooperative=True)
def example(x: ptr(const(float)), out: ptr(float)):
    i: int @ thread[1] = id()
    v: float = intrinsic.broadcast_grid(x[i], source=64)  #~ SNAP018
