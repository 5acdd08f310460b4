"""Math functions, on floats and integers, and their approximate forms."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda R, blocks, x: (len(x) >= 32 * blocks, R >= 14, blocks <= 1))
def evaluate(x: ptr(const(float)), out: ptr(float, (R, 32)), R: int):
    with each(thread, out) as t:
        v: float = x[t]
        out[0, t] = sqrt(v)
        out[1, t] = rsqrt(v)
        out[2, t] = exp(v)
        out[3, t] = exp2(v)
        out[4, t] = log(v)
        out[5, t] = sin(v)
        out[6, t] = cos(v)
        out[7, t] = tanh(v)
        out[8, t] = fma(v, v, 1.0)
        out[9, t] = min(v, 2.0) + max(v, 2.0) + abs(-v)
        out[10, t] = floor(v) + ceil(v)
        out[11, t] = fast.exp2(v)
        out[12, t] = pow(v, 1.5)
        out[13, t] = atan2(v, 2.0)


@kernel(threads=32, where=lambda blocks, x: (len(x) >= 32 * blocks, blocks <= 1))
def bits(x: ptr(const(u32)), out: ptr(int, (4, 32))):
    with each(thread, out) as t:
        out[0, t] = popc(x[t])
        out[1, t] = clz(x[t])
        out[2, t] = ffs(x[t])
        out[3, t] = min(t, 5) - max(-t, -7)


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
