"""A level of one's own counts at least one of its groups."""

from __future__ import annotations

from snap import *

quad = thread[4]


@kernel(threads=64)
def example(x: ptr(int)):
    with each(block, x):
        with group(quad[-1]):  #~ SNAP018
            pass
        n: int = count(thread[4][0])  #~ SNAP018
