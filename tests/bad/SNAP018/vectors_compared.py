"""A vector has as many answers as components; and vectors of two types have no sum."""

from __future__ import annotations

from snap import *


@kernel(threads=32)
def example(x: ptr(const(float)), y: ptr(float)):
    with each(thread, y.view(float4)) as i:
        v: float4 = x.view(float4)[i]
        if v < 0.0:  #~ SNAP018
            v = -v
        y[i] = v + int4(1, 2, 3, 4)  #~ SNAP018
