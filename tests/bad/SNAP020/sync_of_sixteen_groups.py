"""A block has fifteen named barriers, and sixteen groups of 64 threads would need one each."""

from __future__ import annotations

from snap import *


@kernel(threads=1024)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[1024])
        with each(thread[64], s, y) as g:
            t: int @ thread[1] = id()
            with each(thread, s):
                s[64 * g + t] = x[64 * g + t]
            intrinsic.sync()  #~ SNAP020
            with each(thread, y):
                y[64 * g + t] = s[64 * g + 63 - t]
