"""The kernel makes n smaller; a launch would give shared memory for the n that it passes."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float), n: int):
    n = n / 2
    with each(block, out):
        s: shared(float[n], upto=4096)  #~ SNAP018
