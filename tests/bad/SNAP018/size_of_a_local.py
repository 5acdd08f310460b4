"""A variable of the kernel's is no parameter of a launch."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float), n: int):
    m: int = 2 * n
    with each(block, out):
        s: shared(float[m], upto=4096)  #~ SNAP018
