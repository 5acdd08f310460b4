"""A sum by halves in shared memory: one barrier, at the top of the loop, serves the first step, every later one, and the last read."""

from __future__ import annotations

import numpy as np

import snap
from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def tree_reduce(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        i: int @ thread[1] = id()
        with partition(out, p=block[1], f=lambda k: b + k) as total:
            with group(block[1]):
                s: shared(int[256])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], offset=t) as mine:
                    mine[0] = x[i]
                d: int = 128
                while d > 0:
                    y: int @ thread[1] = s[t + d] if t < d else 0
                    with partition(s, p=thread[1], offset=t) as mine:
                        with group(thread[1]):
                            if t < d:
                                mine[0] += y
                    d = d / 2
                with claim(total, p=thread[1]) as one:
                    match split(thread):
                        case 1:
                            one[0] = s[0]


def check():
    x = np.arange(512, dtype=np.int32) ** 2 % 97
    out = np.zeros(2, np.int32)
    tree_reduce[2](x, out)
    np.testing.assert_array_equal(out, x.reshape(2, 256).sum(axis=1))
    assert not snap.races(tree_reduce, x, out, blocks=2, seeds=3)
