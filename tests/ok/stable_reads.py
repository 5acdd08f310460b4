"""Memory read above thread[1]: const, shared, and a partition declared disjoint decide for a whole group."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def choose(modes: ptr(const(int)) @ grid[1], state: ptr(int) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(state, p=block[1], offset=b, disjoint=True) as own:
            with group(block[1]):
                mode: int = modes[b]
                limit: int = own[0]
                s: shared(int[1])
                with claim(s, p=thread[1]) as one:
                    match split(thread):
                        case 1:
                            one[0] = mode + limit
                if s[0] > 10:
                    mine[0] = intrinsic.reduce_add(i)
                else:
                    mine[0] = -1
                with claim(own, p=thread[1]) as one:
                    match split(thread):
                        case 1:
                            one[0] = limit + 1


def check():
    modes, state, out = np.array([0, 5, 9], np.int32), np.array([4, 5, 6], np.int32), np.zeros(96, np.int32)
    choose[3](modes, state, out)
    sums = np.arange(96).reshape(3, 32).sum(axis=1)
    np.testing.assert_array_equal(out.reshape(3, 32), np.where(modes + [4, 5, 6] > 10, sums, -1)[:, None].repeat(32, axis=1))
    np.testing.assert_array_equal(state, [5, 6, 7])
