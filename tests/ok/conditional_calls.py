"""`and`, `or` and `if-else` evaluate as in C, also around calls and memory reads that must not happen."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(thread[1])
def bump(log: ptr(int) @ thread[1], value: int @ thread[1]) -> int @ thread[1]:
    log[0] += 1
    return value


@kernel
@requires(grid[1], block[1], thread[32])
def lazy(x: ptr(const(int)) @ grid[1], log: ptr(int) @ grid[1], out: ptr(int, (5, 32)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(log, p=thread[1], offset=t) as calls, partition(out, p=thread[1], f=lambda k: (k, t)) as mine:
            with group(thread[1]):
                # x has n elements; beyond them it must not be read
                mine[0] = x[t] if t < n else -1
                inside: bool = t < n and x[t] > 0
                mine[1] = int(inside)
                outside: bool = t >= n or x[t] <= 0
                mine[2] = int(outside)
                mine[3] = bump(calls, 5) if t % 2 == 0 else bump(calls, 6) + bump(calls, 7)
                if t % 4 == 0 and bump(calls, t) > 0 or bump(calls, 0) > 0:
                    mine[4] = 1
                elif 0 <= t < 10:
                    mine[4] = 2


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
