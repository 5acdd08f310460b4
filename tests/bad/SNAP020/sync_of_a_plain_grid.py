"""The whole grid can meet in a cooperative launch alone."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def k(x: ptr(const(int)), y: ptr(int)):
    intrinsic.sync()  #~ SNAP020
    with each(thread, y) as i:
        y[i] = x[i]
