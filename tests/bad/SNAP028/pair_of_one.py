"""`pairs=` speaks of two threads."""

from __future__ import annotations

from snap import *


@device(warp, pairs=lambda a: a.result >= 0)  #~ SNAP028
def running(v: int @ thread[1]) -> int @ thread[1]:
    return v
