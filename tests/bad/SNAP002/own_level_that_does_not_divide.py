"""Groups of three quads are 12 threads, which do not divide 64."""

from __future__ import annotations

from snap import *

quad = thread[4]


@kernel(threads=64)
def example(x: ptr(int)):
    with each(block, x):
        with group(quad[3]):  #~ SNAP002
            pass
