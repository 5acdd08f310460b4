"""Two of many blocks hold a part together; nothing synchronizes just them."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[2], thread[64])
def example(a: ptr(int) @ grid[1]):
    with group(grid[1]):
        g: int @ block[2] = id()
        with partition(a, p=block[2], offset=128 * g) as pair:
            with group(block[2]):
                t: int @ thread[1] = id()
                with partition(pair, p=thread[1], offset=t) as mine:
                    mine[0] = t
                with partition(pair, p=thread[1], offset=127 - t) as mine:
                    mine[0] += 1  #~ SNAP020
