"""One function, called on two buffers in turn: what the first call wrote, the second reads, and the other way round.
"""

from __future__ import annotations

import numpy as np

from snap import *

T = 64


@device(block, thread[T])
def step(src: ptr(const(int)), dst: ptr(int), d: int):
    with each(thread, dst) as t:
        dst[t] = src[t] + (src[t - d] if t >= d else 0)


@kernel(threads=T, where=lambda blocks, x: (len(x) >= 64 * blocks, blocks <= 2**25))
def scan(x: ptr(int)):
    with each(block, x) as b:
        even, odd = shared(int[T]), shared(int[T])
        with each(thread, even) as t:
            even[t] = x[b * T + t]
        d: int = 1
        while d < T:
            step(even, odd, d)
            step(odd, even, 2 * d)
            d *= 4
        with each(thread, x) as t:
            x[b * T + t] = even[t]


def check():
    x = np.random.default_rng(0).integers(-9, 9, 3 * T).astype(np.int32)
    right = np.cumsum(x.reshape(3, T), axis=1).reshape(-1)
    assert not scan.races(x.copy(), blocks=3)
    scan[3](x)
    np.testing.assert_array_equal(x, right)
