"""Memory read above thread[1]: const, shared, and a partition declared disjoint decide for a whole group."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda blocks, modes, out, state: (len(modes) >= blocks, len(state) >= blocks, len(out) >= 32 * blocks, blocks <= 2**26))
def choose(modes: ptr(const(int)), state: ptr(int), out: ptr(int)):
    with each(block, state, disjoint=state) as b:
        mode, limit = modes[b], state[b]
        s: shared(int[1])
        i: int @ thread[1] = 32 * b + id()
        with one(thread, s):
            s[0] = mode + limit
        chosen: int @ thread[1] = -1
        if s[0] > 10:
            chosen = intrinsic.reduce_add(i)
        with each(thread, out):
            out[i] = chosen
        with one(thread, state):
            state[b] = limit + 1


def check():
    modes, state, out = np.array([0, 5, 9], np.int32), np.array([4, 5, 6], np.int32), np.zeros(96, np.int32)
    choose[3](modes, state, out)
    sums = np.arange(96).reshape(3, 32).sum(axis=1)
    np.testing.assert_array_equal(out.reshape(3, 32), np.where(modes + [4, 5, 6] > 10, sums, -1)[:, None].repeat(32, axis=1))
    np.testing.assert_array_equal(state, [5, 6, 7])
