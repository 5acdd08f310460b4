"""A conflict of 48 threads at the level of the block is a matter of the whole block."""

from __future__ import annotations

import numpy as np

from snap import *

T = 96


@kernel
@requires(grid[1], block[1], thread[T])
def k(x: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(x, p=block[1], f=lambda i: i) as run:
            with group(block[1]):
                s: shared(int[2, 48])
                t: int @ thread[1] = id()
                g: int @ thread[48] = id()
                v: int @ thread[1] = run[t]
                with partition(s, p=thread[1], f=lambda i: (t / 48, t % 48)) as c:
                    c[0] = v
                v += s[t / 48, 47 - t % 48]
                with group(thread[48]):
                    if g == 1:
                        v += 3
                with partition(run, p=thread[1], offset=t) as c:
                    c[0] = v


def arguments():
    return [np.arange(96, dtype=np.int32), 1]
