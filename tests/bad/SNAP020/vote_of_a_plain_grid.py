"""The blocks of a plain launch do not all run at the same time: they cannot decide together."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(const(float)), out: ptr(float)):
    i: int @ thread[1] = id()
    while intrinsic.any_grid(x[i] > 1.0):  #~ SNAP020
        pass
