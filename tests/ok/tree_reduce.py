"""A sum by halves in shared memory: one barrier, at the top of the loop, serves the first step, every later one, and the last read.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=256, where=lambda blocks, out, x: (len(x) >= 256 * blocks, len(out) >= blocks, blocks <= 2**23))
def tree_reduce(x: ptr(const(int)), out: ptr(int)):
    with each(block) as b:
        s: shared(int[256])
        with each(thread, s) as t:
            s[t] = x[b * 256 + t]
        d: int = 128
        while d > 0:
            with each(thread, s) as t:
                if t < d:
                    s[t] += s[t + d]
            d = d / 2
        with one(thread, out):
            out[b] = s[0]


def check():
    x = np.arange(512, dtype=np.int32) ** 2 % 97
    out = np.zeros(2, np.int32)
    tree_reduce[2](x, out)
    np.testing.assert_array_equal(out, x.reshape(2, 256).sum(axis=1))
    assert not tree_reduce.races(x, out, blocks=2, seeds=3)
