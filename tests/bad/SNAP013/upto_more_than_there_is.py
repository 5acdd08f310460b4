"""No launch can give 400,000 bytes."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float), n: int):
    with each(block, out):
        s: shared(float[n], upto=100000)  #~ SNAP013
