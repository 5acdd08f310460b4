"""f64, f32, f16 and bf16: each operation rounds to its own type; casts round to even and truncate to integers."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, where=lambda blocks, brain, double, half, whole, x: (len(x) >= 64 * blocks, len(half) >= 64 * blocks, len(brain) >= 64 * blocks, len(double) >= 64 * blocks, len(whole) >= 64 * blocks))
def rounded(x: ptr(const(float)), half: ptr(f16), brain: ptr(float), double: ptr(f64), whole: ptr(int)):
    with each(thread, half, brain, double, whole) as t:
        v: float = x[t]
        half[t] = f16(v) * f16(3.0) + f16(0.5)
        brain[t] = float(bf16(v))
        double[t] = f64(v) / 3.0
        whole[t] = int(v)


def to_bf16(x):
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def check():
    rng = np.random.default_rng(0)
    x = (100 * rng.standard_normal(64)).astype(np.float32)
    half, brain, double, whole = np.zeros(64, np.float16), np.zeros(64, np.float32), np.zeros(64), np.zeros(64, np.int32)
    rounded[1](x, half, brain, double, whole)
    # a*b + c may be contracted into one rounding, as CUDA does
    np.testing.assert_allclose(half.astype(np.float32), x * 3 + 0.5, rtol=2e-3, atol=1e-2)
    np.testing.assert_array_equal(brain, to_bf16(x))
    np.testing.assert_allclose(double, x.astype(np.float64) / 3, rtol=1e-15)
    np.testing.assert_array_equal(whole, x.astype(np.int32))
