"""Claimed, and then used by all."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        s: shared(int[64])
        with claim(s, p=thread[32]) as of_warp:
            v: int @ thread[1] = of_warp[0]  #~ SNAP014
