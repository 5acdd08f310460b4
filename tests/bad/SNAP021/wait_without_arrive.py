"""Nobody has arrived at the barrier that this waits for."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[64])
        t: int @ thread[1] = id()
        with each(thread, s):
            s[t] = x[t]
        intrinsic.wait()  #~ SNAP021
        with each(thread, y):
            y[t] = s[63 - t]
