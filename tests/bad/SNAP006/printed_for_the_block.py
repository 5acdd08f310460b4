"""A block prints one line: what differs between its threads is not one value."""

from __future__ import annotations

from snap import *


@kernel(threads=32)
def example(x: ptr(const(int))):
    i: int @ thread[1] = id()
    with each(block) as b:
        print("block", b, "has", x[i])  #~ SNAP006
