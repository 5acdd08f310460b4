"""Local arrays indexed by constant loops, `unroll`, arrays of two dimensions, packed 16-bit arrays."""

from __future__ import annotations

import numpy as np

from snap import *

N = 4


@kernel(threads=32, where=lambda blocks, half, x: (len(x) >= 128 * blocks, blocks <= 1, len(half) >= 32 * blocks))
def outer_products(x: ptr(const(int)), out: ptr(int, (32, N, N)), half: ptr(float)):
    with each(thread, out, half) as t:
        v, m, h = registers(int[N], int[N, N], f16[2 * N])
        for i in range(N):
            v[i] = x[t * N + i]
        for i in unroll(range(N), 2):
            for j in unroll(range(N)):
                m[i, j] += v[i] * v[j]
        for i in range(N):
            for j in range(N):
                out[t, i, j] = m[i, j]
            h[2 * i], h[2 * i + 1] = f16(v[i]), f16(0.25)
        s: float = 0.0
        for i in range(2 * N):
            s += float(h[i])
        half[t] = s


def check():
    x = np.arange(128, dtype=np.int32) - 64
    out, half = np.zeros((32, N, N), np.int32), np.zeros(32, np.float32)
    outer_products[1](x, out, half)
    v = x.reshape(32, N)
    np.testing.assert_array_equal(out, v[:, :, None] * v[:, None, :])
    np.testing.assert_array_equal(half, v.sum(axis=1) + 1.0)
