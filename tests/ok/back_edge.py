"""A barrier that only the loop's back edge needs: read the shared array, then write it for the next turn.
"""

from __future__ import annotations

import numpy as np

from snap import *

T = 96


@kernel(threads=T, where=lambda blocks, x: (len(x) >= 96 * blocks, blocks <= 2**24))
def rotate(x: ptr(int), turns: int):
    with each(block, x) as b:
        s: shared(int[T])
        t: int @ thread[1] = id()
        v: int @ thread[1] = x[b * T + t]
        for turn in range(turns):
            with each(thread, s):
                s[t] = v
            v = s[(t + 1) % T]
        with each(thread, x):
            x[b * T + t] = v


@kernel(threads=T, where=lambda blocks, out, x: (len(x) >= 96 * blocks, len(out) >= 96 * blocks))
def until(x: ptr(const(int)), out: ptr(int), limit: int):
    """The loop ends by a break that the whole block takes."""
    i: int @ thread[1] = id()
    with each(block):
        s: shared(int[T])
        t: int @ thread[1] = id()
        v: int @ thread[1] = x[i]
        while True:
            with each(thread, s):
                s[t] = v
            if s[0] >= limit:
                break
            v += s[(t + 1) % T]
        with each(thread, out):
            out[i] = v


def check():
    x = np.arange(2 * T, dtype=np.int32)
    assert not rotate.races(x.copy(), 4, blocks=2)
    rotate[2](x, 5)
    np.testing.assert_array_equal(x, np.roll(np.arange(2 * T).reshape(2, T), -5, axis=1).reshape(-1))

    y, out = np.arange(1, 2 * T + 1, dtype=np.int32), np.zeros(2 * T, np.int32)
    assert not until.races(y, out.copy(), 100, blocks=2)
    until[2](y, out, 100)
    for b in range(2):
        v = y[b * T : b * T + T].copy()
        while v[0] < 100:
            v = v + np.roll(v, -1)
        np.testing.assert_array_equal(out[b * T : b * T + T], v)
