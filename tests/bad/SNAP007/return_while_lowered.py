"""A return inside a partition would skip what takes the memory back."""

from __future__ import annotations

from snap import *


@device
@requires(block[1], thread[32])
def helper(out: ptr(int) @ block[1], n: int @ block[1]):
    t: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=t) as mine:
        if n == 0:
            return  #~ SNAP007
        mine[0] = 1
