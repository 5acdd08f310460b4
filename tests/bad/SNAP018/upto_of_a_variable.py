"""What bounds a size is a constant."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float), n: int, most: int):
    with each(block, out):
        s: shared(float[n], upto=most)  #~ SNAP018
