"""A result for 64 threads, chosen by a value of 32: both values are the same for all, which of them is returned is not."""

from __future__ import annotations

from snap import *


@device
@requires(thread[32])
def side(w: int @ thread[32]) -> int @ thread[64]:
    if w % 2 == 0:
        return 1  #~ SNAP006
    return 2
