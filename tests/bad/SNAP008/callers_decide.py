"""A function that leaves its number of threads to its callers calls one that needs whole warps."""

from __future__ import annotations

from snap import *


@device(block, warp)
def sums(x: ptr(int)):
    with each(warp, x) as w, one(thread, x):
        x[w] = 0


@device(block)
def example(x: ptr(int)):
    sums(x)  #~ SNAP008
