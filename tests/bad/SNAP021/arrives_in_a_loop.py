"""Every iteration arrives, and the wait comes once."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def k(x: ptr(const(int)), y: ptr(int), n: int):
    with each(block, y):
        s: shared(int[64])
        t: int @ thread[1] = id()
        for k in range(n):  #~ SNAP021
            with each(thread, s):
                s[t] = x[t] + k
            intrinsic.arrive()
        intrinsic.wait()
        with each(thread, y):
            y[t] = s[63 - t]
