"""A function that needs whole warps is called by blocks of 48 threads, and by a function whose blocks may be any."""

from __future__ import annotations

from snap import *


@device(block, warp)
def sums(x: ptr(int)):
    with each(warp, x) as w, one(thread, x):
        x[w] = 0


@kernel(threads=48)
def example(x: ptr(int)):
    with each(block, x):
        sums(x)  #~ SNAP008
