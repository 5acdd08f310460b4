"""No collective makes one value of the whole grid."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float), n: int):
    i: int @ thread[1] = id()
    m: int = i  #~ SNAP006
    if i < n:  #~ SNAP006
        pass
