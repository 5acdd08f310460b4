"""The slots of a pipeline are all of one, constant size."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float), n: int):
    with each(block, out):
        s: pipeline(shared(float[n], upto=4096), 3)  #~ SNAP018
