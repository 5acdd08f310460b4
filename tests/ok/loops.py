"""`while`, `break`, `continue`, negative steps, empty and nested ranges; bounds are evaluated once."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda blocks: blocks == 1)
def count_up(out: ptr(int, (6, 32)), n: int):
    with each(thread, out) as t:
        steps, v = 0, t + 1
        while v != 1:  # Collatz: every thread its own number of steps
            if steps > 1000 or v > 100000:
                break
            if v % 2 == 0:
                v, steps = v / 2, steps + 1
                continue
            v, steps = 3 * v + 1, steps + 1
        out[0, t] = steps

        s: int = 0
        for i in range(10, t, -3):
            if i == 4:
                continue
            s = s * 100 + i
        out[1, t] = s

        s = 0
        for i in range(n):
            for j in range(i, n):
                if j > t:
                    break
                s += j
        out[2, t] = s

        stop, s = t, 0
        for i in range(stop):
            stop = 0  # too late: the bound is taken once
            s += i
        out[3, t] = s

        s = 0
        for i in range(5, 5):
            s += 1
        for i in range(5, 0):
            s += 1
        out[4, t] = s

        while True:
            s += 1
            if s >= t:
                break
        out[5, t] = s


def check():
    out = np.zeros((6, 32), np.int32)
    count_up[1](out, 7)
    for t in range(32):
        v, steps = t + 1, 0
        while v != 1:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            steps += 1
        s = 0
        for i in range(10, t, -3):
            s = s if i == 4 else s * 100 + i
        triangle = sum(j for i in range(7) for j in range(i, min(7, t + 1)))
        assert out[:, t].tolist() == [steps, s, triangle, t * (t - 1) // 2, 0, max(1, t)]
