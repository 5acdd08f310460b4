"""If n is 0, nobody has arrived, and the wait is for nothing."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def k(x: ptr(const(int)), y: ptr(int), n: int):
    with each(block, y):
        s: shared(int[64])
        t: int @ thread[1] = id()
        with each(thread, s):
            s[t] = x[t]
        if n > 0:  #~ SNAP021
            intrinsic.arrive()
        intrinsic.wait()
        with each(thread, y):
            y[t] = s[63 - t]
