"""Loops over constants: sizes of splits, claims, groups and arrays, types, functions, index functions, tables of Python's
numbers; iterations that constants leave.
"""

from __future__ import annotations

import numpy as np

from snap import *

STEPS = (4, 2, 1)


@device(thread)
def more(x: int) -> int:
    return x + 1


@device(thread)
def twice(x: int) -> int:
    return x * 2


@device(block)
def upsweep(s: ptr(shared(int), (N,)), N: constexpr(int)):
    """Half of the threads, a quarter, ... each add what lies half of them further on (Descend's figure 3)."""
    t: int @ thread[1] = id()
    for d in unroll([N >> k for k in range(1, 8)]):
        if d == 0:
            break
        with claim(s, p=thread[d]) as half:
            match split(thread, d):
                case 0:
                    with partition(half, p=thread[1], offset=t) as mine, group(thread[1]):
                        mine[0] += mine[d]


@kernel(threads=64, where=lambda blocks, x, sums: (blocks == 1, len(x) >= 64, len(sums) >= 4))
def halving(x: ptr(const(int)), sums: ptr(int)):
    with each(block, sums):
        s, few = shared(int[64]), shared(int[8])
        with each(thread, s) as t:
            s[t] = x[t]
        upsweep(s)
        with each(thread, few) as t:
            if t < 8:
                few[t] = t
        upsweep(few)
        with one(thread, sums):
            sums[0], sums[1] = s[0], few[0]


@kernel(threads=64, where=lambda blocks, y: (blocks == 1, len(y) >= 64))
def constants(y: ptr(int)):
    with each(block, y):
        for p in unroll((thread[8], warp)):
            with each(p, y) as u:
                n = count(thread)
                with each(thread, y) as t:
                    y[u * n + t] += u
        own: int @ thread[1] = id()
        for f in unroll((lambda i: own + i, lambda i: 63 - own - i)):
            with partition(y, p=thread[1], f=f) as mine, group(thread[1]):
                mine[0] += 1
        with each(thread, y) as t:
            v: int = t
            for size in unroll(STEPS):
                a: int[size] = v
                a[size - 1] += size
                v += a[0] + a[size - 1]
            for g in unroll((more, twice, more)):
                v = g(v)
            for T in unroll((u8, i16)):
                v += int(T(v))
            for x in unroll((0.5, 2.0)):
                if x > 1.0:
                    continue
                v += int(10.0 * x)
            y[t] += v


def check():
    x, sums = np.arange(64, dtype=np.int32) ** 2, np.zeros(4, np.int32)
    halving[1](x, sums)
    np.testing.assert_array_equal(sums, [x.sum(), 28, 0, 0])
    y = np.zeros(64, np.int32)
    constants[1](y)
    np.testing.assert_array_equal(y, [_told(t) for t in range(64)])


def _told(t: int) -> int:
    v = t
    for size in STEPS:
        v += (v if size > 1 else v + size) + v + size
    v = (v + 1) * 2 + 1
    v += v % 256
    return v + v + 5 + t // 8 + t // 32 + 2
