"""Scopes are blocks, as in C: a name ends with its block, and an inner declaration hides the outer."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[32], where=lambda blocks: blocks <= 1)
def shadows(out: ptr(int, (4, 32)) @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: (k, t)) as mine, group(thread[1]):
            v: int = 1
            if t % 2 == 0:
                v: int = 100
                v += t
                mine[0] = v
            mine[1] = v
            for i in range(3):
                w: int = i
                v += w
            for i in range(2):
                w: float = 0.5
                v += int(w * 2.0)
            mine[2] = v
            sum = 0  # without annotation: declared here, at the code's privilege
            sum += v
            mine[3] = sum


def check():
    out = np.zeros((4, 32), np.int32)
    shadows[1](out)
    t = np.arange(32)
    np.testing.assert_array_equal(out[0], np.where(t % 2 == 0, 100 + t, 0))
    np.testing.assert_array_equal(out[1:], np.repeat([[1], [6], [6]], 32, axis=1))
