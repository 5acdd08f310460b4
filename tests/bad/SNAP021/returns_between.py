"""A function returns between the two parts."""

from __future__ import annotations

from snap import *


@device(thread[64])
def summed(s: ptr(shared(int)), v: int @ thread[1], deep: int @ thread[64]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    with each(thread, s):
        s[t] = v
    intrinsic.arrive()
    if deep == 0:
        return v  #~ SNAP021
    intrinsic.wait()
    return s[63 - t]
