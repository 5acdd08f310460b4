"""Neighboring windows share two elements, and each thread would have written them."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(float)):
    with partition(x, p=thread[1], view=views.windows(4, 2)) as mine, group(thread[1]):  #~ SNAP028
        mine[0] = 1.0
