"""One thread has nobody to wait for."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(thread, y) as i:
        y[i] = x[i]
        intrinsic.sync()  #~ SNAP016
