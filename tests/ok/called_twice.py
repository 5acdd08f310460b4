"""One function, called on two buffers in turn: what the first call wrote, the second reads, and the other way round."""

from __future__ import annotations

import numpy as np

import snap
from snap import *

T = 64


@device
@requires(block[1], thread[T])
def step(src: ptr(const(int)) @ block[1], dst: ptr(int) @ block[1], d: int @ block[1]):
    t: int @ thread[1] = id()
    with partition(dst, p=thread[1], offset=t) as mine:
        mine[0] = src[t] + (src[t - d] if t >= d else 0)


@kernel
@requires(grid[1], block[1], thread[T])
def scan(x: ptr(int) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(x, p=block[1], offset=b * T) as run:
            with group(block[1]):
                even: shared(int[T])
                odd: shared(int[T])
                t: int @ thread[1] = id()
                with partition(even, p=thread[1], offset=t) as mine:
                    mine[0] = run[t]
                d: int = 1
                while d < T:
                    step(even, odd, d)
                    step(odd, even, 2 * d)
                    d *= 4
                with partition(run, p=thread[1], offset=t) as mine:
                    mine[0] = even[t]


def check():
    x = np.random.default_rng(0).integers(-9, 9, 3 * T).astype(np.int32)
    right = np.cumsum(x.reshape(3, T), axis=1).reshape(-1)
    assert not snap.races(scan, x.copy(), blocks=3)
    scan[3](x)
    np.testing.assert_array_equal(x, right)
