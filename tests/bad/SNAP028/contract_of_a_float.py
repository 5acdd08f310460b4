"""A contract speaks of integers."""

from __future__ import annotations

from snap import *


@device(thread, ensures=lambda result: result >= 0)  #~ SNAP028
def root(x: float) -> float:
    return sqrt(x)
