"""Loops and branches decided by a whole block or warp, with memory handed out and taken back inside."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, where=lambda blocks, out, x: (len(x) >= 64 * blocks, len(out) >= 64 * blocks, blocks <= 2**25))
def scan(x: ptr(const(int)), out: ptr(int)):
    with each(block) as b0:
        a, b = shared(int[64]), shared(int[64])
        t: int @ thread[1] = id()
        with each(thread, a):
            a[t] = x[64 * b0 + t]
        d, from_a = 1, True
        while d < 64:
            if from_a:
                with each(thread, b):
                    b[t] = a[t] + (a[t - d] if t >= d else 0)
            else:
                with each(thread, a):
                    a[t] = b[t] + (b[t - d] if t >= d else 0)
            d, from_a = d * 2, not from_a
        with each(thread, out):
            out[64 * b0 + t] = a[t] if from_a else b[t]


def check():
    rng = np.random.default_rng(0)
    x = rng.integers(-50, 50, 192).astype(np.int32)
    out = np.zeros_like(x)
    scan[3](x, out)
    np.testing.assert_array_equal(out, np.cumsum(x.reshape(3, 64), axis=1).reshape(-1))
