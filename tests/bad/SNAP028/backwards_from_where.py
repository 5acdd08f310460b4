"""The length of `x` is not known where it is read backwards."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(float)):
    with partition(x, p=thread[1], view=views.backwards()) as mine, group(thread[1]):  #~ SNAP028
        mine[0] = 1.0
