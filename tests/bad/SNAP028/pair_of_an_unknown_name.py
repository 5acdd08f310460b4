"""A thread of a pair has what the function has."""

from __future__ import annotations

from snap import *


@device(warp, pairs=lambda a, b: a.sum <= b.sum)  #~ SNAP028
def running(v: int @ thread[1]) -> int @ thread[1]:
    return v
