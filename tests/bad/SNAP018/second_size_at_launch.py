"""Where an element lies does not depend on the launch: only the first extent may."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float), n: int):
    with each(block, out):
        s: shared(float[16, n], upto=4096)  #~ SNAP018
