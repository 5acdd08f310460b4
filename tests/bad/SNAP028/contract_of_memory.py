"""What is in memory is not known before a launch."""

from __future__ import annotations

from snap import *


@device(thread, ensures=lambda x, result: result == x[0])  #~ SNAP028
def first(x: ptr(const(int))) -> int:
    return x[0]
