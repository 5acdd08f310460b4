"""Vectors: whole loads and stores through `.view(float4)`, components, vectors made from parts."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda n4, x, y: (len(x) >= 4 * n4, len(y) >= 4 * n4))
def scale(x: ptr(const(float)), y: ptr(float), n4: int):
    with each(thread, y.view(float4), shape=n4) as i:
        v: float4 = x.view(float4)[i]
        v.x = v.x * 2.0
        v.w += 1.0
        y[i] = float4(v.w, v.z, v.y, v.x)


@kernel(threads=32, where=lambda blocks, x, y: (len(x) >= 64 * blocks, len(y) >= 64 * blocks, blocks <= 2**25))
def through_registers(x: ptr(const(int2)), y: ptr(int2)):
    with each(thread, y) as i:
        a: int[4]
        a.view(int2)[0], a.view(int2)[1] = x[2 * i], x[2 * i + 1]
        for k in range(4):
            a[k] += k
        y[2 * i], y[2 * i + 1] = a.view(int2)[0], a.view(int2)[1]


def check():
    x = np.arange(4 * 37, dtype=np.float32)
    y = np.zeros_like(x)
    scale[2](x, y, 37)
    q = x.reshape(-1, 4)
    np.testing.assert_array_equal(y.reshape(-1, 4), np.stack([q[:, 3] + 1, q[:, 2], q[:, 1], q[:, 0] * 2], axis=1))

    a = np.arange(128, dtype=np.int32)
    b = np.zeros_like(a)
    through_registers[1](a, b)
    np.testing.assert_array_equal(b, a + np.tile(np.arange(4), 32))
