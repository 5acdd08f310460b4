"""`claim` gives all of an object to one group of a split; the block has it back, synchronized, when the scope ends."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[96], where=lambda blocks, out: len(out) >= 96 * blocks)
def relay(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, group(block[1]):
            s: shared(int[32])
            with claim(s, p=thread[32]) as all_of_it:
                match split(thread):
                    case 64:
                        pass
                    case 32:
                        l: int @ thread[1] = id()
                        with partition(all_of_it, p=thread[1], offset=l) as cell:
                            cell[0] = l * l
            with claim(s, p=thread[1]) as alone:
                match split(thread):
                    case 1:
                        for k in range(1, 32):
                            alone[k] += alone[k - 1]
            mine[0] = s[31 - i % 32]


def check():
    out = np.zeros(192, np.int32)
    relay[2](out)
    np.testing.assert_array_equal(out, np.tile(np.cumsum(np.arange(32) ** 2)[::-1], 6))
