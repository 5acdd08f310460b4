"""A function of 8 neighbors is not one of 8 threads of a column."""

from __future__ import annotations

from snap import *


@device(thread[8])
def total(v: int @ thread[1]) -> int:
    return intrinsic.reduce_add(v)


@kernel(threads=64)
def example(y: ptr(int)):
    t: int @ thread[1] = id()
    with group(thread.every(4)[8]):
        sum: int = total(t)  #~ SNAP008
