"""`match split(thread, P, C)`: sizes are constant expressions, cases count the branches."""

from __future__ import annotations

import numpy as np

from snap import *

PRODUCERS = 32


@kernel
@requires(lambda CONSUMERS: (grid[1], block[1], thread[PRODUCERS + CONSUMERS]))
def roles(out: ptr(int) @ grid[1], CONSUMERS: constexpr(int)):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, group(block[1]):
            match split(thread, CONSUMERS, PRODUCERS):
                case 0:
                    with group(warp):
                        mine[0] = 1
                case 1:
                    lane: int @ thread[1] = id()
                    mine[0] = 100 + lane


def check():
    for consumers in (32, 96):
        out = np.zeros(consumers + 32, np.int32)
        roles[1](out, consumers)
        np.testing.assert_array_equal(out, np.concatenate([np.ones(consumers), 100 + np.arange(32)]))


GOLDEN = [roles.specialize(CONSUMERS=96)]


GOLDEN = [roles.specialize(CONSUMERS=96)]
