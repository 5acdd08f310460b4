"""`and`, `or` and `if-else` evaluate as in C, also around calls and memory reads that must not happen."""

from __future__ import annotations

import numpy as np

from snap import *


@device(thread)
def bump(log: ptr(int), t: int, value: int) -> int:
    log[t] += 1
    return value


@kernel(threads=32, where=lambda blocks, log, n, x: (len(x) >= n, blocks <= 1, len(log) >= 32 * blocks))
def lazy(x: ptr(const(int)), log: ptr(int), out: ptr(int, (5, 32)), n: int):
    with each(thread, log, out) as t:
        # x has n elements; beyond them it must not be read
        out[0, t] = x[t] if t < n else -1
        out[1, t] = int(t < n and x[t] > 0)
        out[2, t] = int(t >= n or x[t] <= 0)
        out[3, t] = bump(log, t, 5) if t % 2 == 0 else bump(log, t, 6) + bump(log, t, 7)
        if t % 4 == 0 and bump(log, t, t) > 0 or bump(log, t, 0) > 0:
            out[4, t] = 1
        elif 0 <= t < 10:
            out[4, t] = 2


def check():
    x = np.array([3, -1, 0, 8, 5, -7, 2, 1, 0, 9, 4], np.int32)
    log, out = np.zeros(32, np.int32), np.zeros((5, 32), np.int32)
    lazy[1](x, log, out, len(x))
    for t in range(32):
        inside = t < len(x) and x[t] > 0
        calls = 1 if t % 2 == 0 else 2
        if t % 4 == 0:
            calls += 1 if t > 0 else 2
        else:
            calls += 1
        last = 1 if t % 4 == 0 and t > 0 else 2 if t < 10 else 0
        assert out[:, t].tolist() == [x[t] if t < len(x) else -1, int(inside), int(not inside), 5 if t % 2 == 0 else 13, last]
        assert log[t] == calls
