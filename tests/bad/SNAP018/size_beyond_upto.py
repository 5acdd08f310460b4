"""5000 is never at most 4096."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float)):
    with each(block, out):
        s: shared(float[5000], upto=4096)  #~ SNAP018
