"""A group has one barrier in two parts, and cannot arrive at it again before it has waited."""

from __future__ import annotations

from snap import *


@kernel(threads=128)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[128])
        with each(thread[64], s, y) as g:
            t: int @ thread[1] = id()
            with each(thread, s):
                s[64 * g + t] = x[64 * g + t]
            intrinsic.arrive()
            intrinsic.arrive()  #~ SNAP021
            intrinsic.wait()
            with each(thread, y):
                y[64 * g + t] = s[64 * g + 63 - t]
            intrinsic.wait()
