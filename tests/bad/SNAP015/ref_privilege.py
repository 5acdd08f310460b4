"""A reference parameter takes an array of exactly its privilege."""

from __future__ import annotations

from snap import *


@device
@requires(thread[32])
def fill(a: ref(int[4]) @ thread[1]):
    for i in range(4):
        a[i] = i


@kernel
@requires(grid[1], block[1], thread[64])
def example(out: ptr(int) @ grid[1]):
    with group(warp):
        a: int[4] @ thread[32]
        fill(a)  #~ SNAP015
