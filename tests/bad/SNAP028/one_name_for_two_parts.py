"""`split_at` makes two parts."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(float)):
    with partition(x, p=block[1], view=views.chunks(64) >> views.split_at(32)) as part:  #~ SNAP028
        pass
