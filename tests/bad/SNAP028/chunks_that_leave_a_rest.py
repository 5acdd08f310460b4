"""100 elements are no whole number of rows of 64."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(int)):
    with group(block[1]):
        s: shared(int[100])
        with partition(s, p=thread[1], view=views.chunks(64)) as mine, group(thread[1]):  #~ SNAP028
            mine[0] = 1
