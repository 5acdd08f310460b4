"""What is a type decides at compile time: `T == f16`, `T.bytes`.  Of the branches, only those of the type exist."""

from __future__ import annotations

import numpy as np

from snap import *

WORD = 4


@device(thread)
def total(v: ref(T[N]), T: constexpr(type), N: constexpr(int)) -> float:
    """In pairs where two elements are a word; the vector is of f16 alone."""
    sum: float = 0.0
    if T == f16:
        for k in unroll(range(N / 2)):
            pair = v.view(half2)[k]
            sum += float(pair.x + pair.y)
    else:
        for k in unroll(range(N)):
            sum += float(v[k])
    return sum


@kernel(threads=32, blocks=1)
def totals(x: ptr(const(T), (32, N)), y: ptr(float, (32,)), words: ptr(int, (32,)), N: constexpr(int), T: constexpr(type)):
    with each(block, y, words):
        s: shared(u8[32 * T.bytes])
        with each(thread, s) as t:
            for k in unroll(range(T.bytes)):
                s[T.bytes * t + k] = u8(k + 1)
        with each(thread, y, words) as t:
            v: T[N]
            for k in unroll(range(N)):
                v[k] = x[t, k]
            y[t] = total(v)
            per: constexpr(int) = WORD / T.bytes if T.bytes < WORD else 1
            words[t] = (T.bits * N + 31) / 32 * 100 + per * 10 + int(s[T.bytes * (31 - t) + T.bytes - 1])
            if T != f32 and T != f16 and float4.bytes == 16:
                words[t] += 10000


def check():
    for type, digits in (("f2", 222), ("f4", 414), ("f8", 10818)):
        x = np.arange(128, dtype=type).reshape(32, 4)
        y, words = np.zeros(32, np.float32), np.zeros(32, np.int32)
        totals(x, y, words)
        np.testing.assert_array_equal(y, x.sum(axis=1, dtype=np.float32))
        assert (words == digits).all(), words[0]


GOLDEN = [totals.specialize(T=f16, N=4), totals.specialize(T=f64, N=4)]
