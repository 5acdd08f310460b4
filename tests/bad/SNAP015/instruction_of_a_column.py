"""An instruction takes memory by its address: the elements of a column do not follow one another."""

from __future__ import annotations

from snap import *


@instruction(warp, text="put({s});")
def put(s: ptr(shared(int))):  #~ SNAP015
    with each(thread, s) as lane:
        s[lane] = lane


@kernel(threads=32)
def example(x: ptr(int)):
    with each(block):
        s: shared(int[32, 32])
        with partition(s, p=warp, f=lambda i: (i, 3)) as column, group(warp):
            put(column)
