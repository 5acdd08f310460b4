"""`print` shows values: of an array, its elements; and no more than fit one line."""

from __future__ import annotations

from snap import *


@kernel(threads=32)
def example(x: ptr(const(int))):
    with each(thread) as i:
        print("x =", x)  #~ SNAP018
        r: float[4]
        print(r)  #~ SNAP018
        v: float4 = float4(0.0, 0.0, 0.0, 0.0)
        print(v, v, v, v, v, v, v, v)  #~ SNAP018
        print("zero\0")  #~ SNAP018
