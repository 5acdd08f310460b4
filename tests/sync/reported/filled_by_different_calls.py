"""Two calls of one function need different points."""

from __future__ import annotations

import numpy as np

from snap import *

T = 64


@device
@requires(block[1], thread[T])
def fill(s: ptr(int, (8, T)) @ block[1], n: int @ block[1]):
    t: int @ thread[1] = id()
    i: int = 0
    while i < n:
        with partition(s, p=thread[1], f=lambda q: (i, t)) as c:
            c[0] = i + t + n
        i += 1


@device
@requires(block[1], thread[T])
def total(s: ptr(const(int), (8, T)) @ block[1], n: int @ block[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    v: int @ thread[1] = 0
    i: int = 0
    while i < n:
        v += s[i, T - 1 - t]
        i += 1
    return v


@kernel
@requires(grid[1], block[1], thread[T])
def k(out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(out, p=block[1], f=lambda i: i) as o:
            with group(block[1]):
                s: shared(int[8, T])
                t: int @ thread[1] = id()
                v: int @ thread[1] = 0
                fill(s, n)
                for r in range(3):
                    v += total(s, n)
                    fill(s, n - r)
                v += total(s, n)
                with partition(o, p=thread[1], offset=t) as c:
                    c[0] = v


def arguments():
    return [np.zeros(64, np.int32), 4]
