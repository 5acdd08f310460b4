"""A barrier that only the loop's back edge needs: read the shared array, then write it for the next turn."""

from __future__ import annotations

import numpy as np

import snap
from snap import *

T = 96


@kernel
@requires(grid[1], block[1], thread[T])
def rotate(x: ptr(int) @ grid[1], turns: int @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(x, p=block[1], offset=b * T) as run:
            with group(block[1]):
                s: shared(int[T])
                t: int @ thread[1] = id()
                v: int @ thread[1] = run[t]
                for turn in range(turns):
                    with partition(s, p=thread[1], offset=t) as mine:
                        mine[0] = v
                    v = s[(t + 1) % T]
                with partition(run, p=thread[1], offset=t) as mine:
                    mine[0] = v


@kernel
@requires(grid[1], block[1], thread[T])
def until(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], limit: int @ grid[1]):
    """The loop ends by a break that the whole block takes."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(int[T])
                t: int @ thread[1] = id()
                v: int @ thread[1] = x[i]
                while True:
                    with partition(s, p=thread[1], offset=t) as cell:
                        cell[0] = v
                    if s[0] >= limit:
                        break
                    v += s[(t + 1) % T]
                mine[0] = v


def check():
    x = np.arange(2 * T, dtype=np.int32)
    assert not snap.races(rotate, x.copy(), 4, blocks=2)
    rotate[2](x, 5)
    np.testing.assert_array_equal(x, np.roll(np.arange(2 * T).reshape(2, T), -5, axis=1).reshape(-1))

    y, out = np.arange(1, 2 * T + 1, dtype=np.int32), np.zeros(2 * T, np.int32)
    assert not snap.races(until, y, out.copy(), 100, blocks=2)
    until[2](y, out, 100)
    for b in range(2):
        v = y[b * T : b * T + T].copy()
        while v[0] < 100:
            v = v + np.roll(v, -1)
        np.testing.assert_array_equal(out[b * T : b * T + T], v)
