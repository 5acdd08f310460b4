"""Math functions, on floats and integers, and their approximate forms."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def evaluate(x: ptr(const(float)) @ grid[1], out: ptr(float, (R, 32)) @ grid[1], R: int @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        v: float @ thread[1] = x[t]
        with partition(out, p=thread[1], f=lambda k: (k, t)) as mine:
            mine[0] = sqrt(v)
            mine[1] = rsqrt(v)
            mine[2] = exp(v)
            mine[3] = exp2(v)
            mine[4] = log(v)
            mine[5] = sin(v)
            mine[6] = cos(v)
            mine[7] = tanh(v)
            mine[8] = fma(v, v, 1.0)
            mine[9] = min(v, 2.0) + max(v, 2.0) + abs(-v)
            mine[10] = floor(v) + ceil(v)
            mine[11] = fast.exp2(v)
            mine[12] = pow(v, 1.5)
            mine[13] = atan2(v, 2.0)


@kernel
@requires(grid[1], block[1], thread[32])
def bits(x: ptr(const(u32)) @ grid[1], out: ptr(int, (4, 32)) @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: (k, t)) as mine:
            mine[0] = popc(x[t])
            mine[1] = clz(x[t])
            mine[2] = ffs(x[t])
            mine[3] = min(t, 5) - max(-t, -7)


def check():
    x = np.linspace(0.25, 4, 32, dtype=np.float32)
    out = np.zeros((14, 32), np.float32)
    evaluate[1](x, out, 14)
    d = x.astype(np.float64)
    right = [np.sqrt(d), 1 / np.sqrt(d), np.exp(d), np.exp2(d), np.log(d), np.sin(d), np.cos(d), np.tanh(d), d * d + 1, d + 2 + d,
             np.floor(d) + np.ceil(d), np.exp2(d), d**1.5, np.arctan2(d, 2)]
    np.testing.assert_allclose(out, right, rtol=1e-5, atol=1e-6)

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2**32, 32).astype(np.uint32)
    y[:2] = 0, 2**32 - 1
    found = np.zeros((4, 32), np.int32)
    bits[1](y, found)
    text = [f"{v:032b}" for v in y.tolist()]
    np.testing.assert_array_equal(found[0], [s.count("1") for s in text])
    np.testing.assert_array_equal(found[1], [len(s) - len(s.lstrip("0")) for s in text])
    np.testing.assert_array_equal(found[2], [0 if "1" not in s else 32 - s.rindex("1") for s in text])
    t = np.arange(32)
    np.testing.assert_array_equal(found[3], np.minimum(t, 5) - np.maximum(-t, -7))
