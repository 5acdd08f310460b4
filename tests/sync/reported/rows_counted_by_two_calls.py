"""Each call counts its own rows: those of the second follow no order of the first."""

from __future__ import annotations

import numpy as np

from snap import *

T = 64


@device
@requires(block[1], thread[T])
def smooth(s: ptr(int, (8, T)) @ block[1], n: int @ block[1]):
    t: int @ thread[1] = id()
    i: int = 0
    while i < n:
        v: int @ thread[1] = s[i, t] + s[i, (t + 1) % T]
        with partition(s, p=thread[1], f=lambda q: (i, t)) as c:
            c[0] = v
        i += 1


@kernel
@requires(grid[1], block[1], thread[T])
def k(out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(out, p=block[1], f=lambda i: i) as o:
            with group(block[1]):
                s: shared(int[8, T])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], f=lambda i: (i, t)) as c:
                    for i in range(8):
                        c[i] = t * t
                smooth(s, n)
                smooth(s, n)
                with partition(o, p=thread[1], offset=t) as c:
                    c[0] = s[0, t]


def arguments():
    return [np.zeros(64, np.int32), 1]
