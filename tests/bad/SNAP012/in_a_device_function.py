"""A function that requires a warp only cannot allocate for the block."""

from __future__ import annotations

from snap import *


@device
@requires(thread[32])
def helper(v: int @ thread[1]) -> int @ thread[1]:
    s: shared(int[32])  #~ SNAP012
    return v
