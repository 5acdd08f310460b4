"""What 8 threads agree on is not what the warp agrees on."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(const(int)), out: ptr(int)):
    i: int @ thread[1] = id()
    total: int @ thread[8] = 0
    with group(thread[8]):
        total = intrinsic.reduce_add(x[i])
    with group(warp):
        if total > 3:  #~ SNAP006
            intrinsic.syncwarp()
