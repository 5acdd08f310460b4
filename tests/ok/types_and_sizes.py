"""Functions over types and sizes: a call, and a launch, leave out what its arguments tell."""

from __future__ import annotations

import numpy as np

from snap import *


@device(thread)
def lerp(a: T, b: T, w: T, T: constexpr(type)) -> T:
    d: T = b - a
    return a + T(w) * d


@device(thread)
def dot(a: ref(T[N]), b: T[N], T: constexpr(type), N: constexpr(int)) -> T:
    s: T = 0
    for i in unroll(range(N)):
        s += a[i] * b[i]
    return s


@device(block)
def total(x: ptr(shared(T), (N,)), T: constexpr(type), N: constexpr(int)) -> T:
    parts: shared(T[N])
    with each(thread, parts) as t:
        if t < N:
            parts[t] = x[N - 1 - t] + T(1)
    s: T = 0
    for i in range(N):
        s += parts[i]
    return s


@kernel(threads=lambda N: N, blocks=lambda M: M, where=lambda M, blocks: blocks <= M)
def rows(x: ptr(const(T), (M, N)), y: ptr(T, (M,)), start: T, M: int, T: constexpr(type), N: constexpr(int)):
    with each(block, y) as b:
        row: shared(T[N])
        few: shared(int[4])
        with each(thread, row, few) as t:
            row[t] = lerp(start, x[b, t], 2)
            if t < 4:
                few[t] = t
        sum = total(row)
        more = total(few)
        with one(thread, y):
            v, w = registers(T[2], T[2])
            v[0], v[1] = sum, T(more)
            w[0], w[1] = T(1), T(2)
            y[b] = dot(v, w)


def check():
    for dtype in (np.float32, np.float64, np.int32):
        for n in (8, 32):
            x, y = np.arange(3 * n, dtype=dtype).reshape(3, n), np.zeros(3, dtype)
            rows(x, y, 1, 3)
            expected = (1 + 2 * (x - 1) + 1).sum(axis=1) + 2 * (6 + 4)
            np.testing.assert_array_equal(y, expected)
            y[:] = 0
            rows.specialize(T=dtype)[3](x, y, 1, 3)
            np.testing.assert_array_equal(y, expected)


GOLDEN = [rows.specialize(T=f32, N=32), rows.specialize(T=np.int32, N=64)]
