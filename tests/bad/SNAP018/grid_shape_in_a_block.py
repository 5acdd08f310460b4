"""The code of the grid asks for the grid's shape, and passes it on."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(int)):
    with each(block, out):
        n: int = count(block, 1)  #~ SNAP018
        m: int = count(block, 3)  #~ SNAP018
        k: int = count(warp, 0)  #~ SNAP018
