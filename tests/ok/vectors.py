"""Vectors: whole loads and stores through `.view(float4)`, components, vectors made from parts."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def scale(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n4: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y.view(float4), p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n4:
                    v: float4 = x.view(float4)[i]
                    v.x = v.x * 2.0
                    v.w += 1.0
                    mine[0] = float4(v.w, v.z, v.y, v.x)


@kernel
@requires(grid[1], block[1], thread[32])
def through_registers(x: ptr(const(int2)) @ grid[1], y: ptr(int2) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=2 * i) as mine:
            a: int[4] @ thread[1]
            for k in range(2):
                a.view(int2)[k] = x[2 * i + k]
            for k in range(4):
                a[k] += k
            for k in range(2):
                mine[k] = a.view(int2)[k]


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
