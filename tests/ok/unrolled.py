"""Local arrays indexed by constant loops, `unroll`, arrays of two dimensions, packed 16-bit arrays."""

from __future__ import annotations

import numpy as np

from snap import *

N = 4


@kernel
@requires(grid[1], block[1], thread[32])
def outer_products(x: ptr(const(int)) @ grid[1], out: ptr(int, (32, N, N)) @ grid[1], half: ptr(float) @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda i, j: (t, i, j)) as mine, partition(half, p=thread[1], offset=t) as sum16:
            v: int[N] @ thread[1]
            m: int[N, N] @ thread[1]
            h: f16[2 * N] @ thread[1]
            for i in range(N):
                v[i] = x[t * N + i]
            for i in unroll(range(N), 2):
                for j in unroll(range(N)):
                    m[i, j] += v[i] * v[j]
            for i in range(N):
                for j in range(N):
                    mine[i, j] = m[i, j]
                h[2 * i] = f16(v[i])
                h[2 * i + 1] = f16(0.25)
            s: float @ thread[1] = 0.0
            for i in range(2 * N):
                s += float(h[i])
            sum16[0] = s


def check():
    x = np.arange(128, dtype=np.int32) - 64
    out, half = np.zeros((32, N, N), np.int32), np.zeros(32, np.float32)
    outer_products[1](x, out, half)
    v = x.reshape(32, N)
    np.testing.assert_array_equal(out, v[:, :, None] * v[:, None, :])
    np.testing.assert_array_equal(half, v.sum(axis=1) + 1.0)
