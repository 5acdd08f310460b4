"""The loop of a persistent kernel goes through all of its shape."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(int), n: int):
    with each(block, out):
        for i, j in strided(block, shape=(..., n)):  #~ SNAP018
            pass
        for i, j in strided(block, shape=...):  #~ SNAP018
            pass
