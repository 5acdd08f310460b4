"""Parts begin 7 apart and are 8 wide."""

from __future__ import annotations

from snap import *


@kernel(threads=8, proved=True, where=lambda c, blocks: (blocks <= 1000, len(c) >= 7 * blocks + 8))
def example(c: ptr(float)):
    n0: int @ block[1] = 7 * id()
    with partition(c, p=block[1], f=lambda j: n0 + j) as part:
        with group(block[1]):
            t: int @ thread[1] = id()
            with partition(part, p=thread[1], f=lambda j: t + j) as mine, group(thread[1]):
                mine[0] = 1.0  #~ SNAP022
