"""Groups of 48 threads share a warp."""

from __future__ import annotations

from snap import *


@kernel(threads=96)
def k(y: ptr(int)):
    with each(block, y):
        with each(thread[48], y):
            intrinsic.sync()  #~ SNAP020
