"""Loops and branches decided by a whole block or warp, with memory handed out and taken back inside."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def scan(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                a: shared(int[64])
                b: shared(int[64])
                t: int @ thread[1] = id()
                with partition(a, p=thread[1], offset=t) as slot:
                    slot[0] = x[i]
                d: int = 1
                from_a: bool = True
                while d < 64:
                    if from_a:
                        with partition(b, p=thread[1], offset=t) as slot:
                            slot[0] = a[t] + (a[t - d] if t >= d else 0)
                    else:
                        with partition(a, p=thread[1], offset=t) as slot:
                            slot[0] = b[t] + (b[t - d] if t >= d else 0)
                    from_a = not from_a
                    d *= 2
                mine[0] = a[t] if from_a else b[t]


def check():
    rng = np.random.default_rng(0)
    x = rng.integers(-50, 50, 192).astype(np.int32)
    out = np.zeros_like(x)
    scan[3](x, out)
    np.testing.assert_array_equal(out, np.cumsum(x.reshape(3, 64), axis=1).reshape(-1))
