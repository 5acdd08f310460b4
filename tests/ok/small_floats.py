"""Floats of 8 bits: f32 to e4m3 and e5m2 and back. The bits lie in u8."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=128, where=lambda e4m3, e5m2, n, x: (len(x) >= n, len(e4m3) >= n, len(e5m2) >= n))
def rounded(x: ptr(const(float)), e4m3: ptr(u8), e5m2: ptr(u8), n: int):
    with each(thread, e4m3, e5m2) as i:
        if i >= n:
            return
        e4m3[i] = to_e4m3(x[i])
        e5m2[i] = intrinsic.to_e5m2(x[i])


@kernel(threads=128, where=lambda b, blocks, e4m3, e5m2: (len(b) >= 128 * blocks, len(e4m3) >= 128 * blocks, len(e5m2) >= 128 * blocks))
def widened(b: ptr(const(u8)), e4m3: ptr(float), e5m2: ptr(float)):
    with each(thread, e4m3, e5m2) as i:
        e4m3[i] = from_e4m3(b[i])
        e5m2[i] = from_e5m2(b[i])


def small_floats(exponent_bits, mantissa_bits, infinite):
    """All 256, by definition."""
    found = []
    for bits in range(256):
        exponent, fraction = bits >> mantissa_bits & (1 << exponent_bits) - 1, bits & (1 << mantissa_bits) - 1
        bias = (1 << exponent_bits - 1) - 1
        value = (fraction + (1 << mantissa_bits) * (exponent > 0)) * 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
        if infinite and exponent == (1 << exponent_bits) - 1:
            value = np.nan if fraction else np.inf
        if not infinite and bits & 127 == 127:
            value = np.nan
        found.append(-value if bits >> 7 else value)
    return np.array(found)


def nearest(x, values):
    """The bits of the value that lies nearest, of two the even one; slowly, and by comparing with all of them."""
    if np.isnan(x):
        return 127
    finite = [k for k in range(128) if np.isfinite(values[k])]
    size = min(abs(float(x)), values[finite[-1]])
    best = min(finite, key=lambda k: (abs(values[k] - size), k % 2))
    return best + 128 * bool(np.signbit(x))


def check():
    tables = small_floats(4, 3, False), small_floats(5, 2, True)
    bits = np.arange(256, dtype=np.uint8)
    back = [np.zeros(256, np.float32) for _ in tables]
    widened[2](bits, *back)
    for found, table in zip(back, tables):
        np.testing.assert_array_equal(found, table.astype(np.float32))

    exact = np.concatenate([t[np.isfinite(t)] for t in tables]).astype(np.float32)
    middles = np.concatenate([(np.sort(t[np.isfinite(t)])[1:] + np.sort(t[np.isfinite(t)])[:-1]) / 2 for t in tables]).astype(np.float32)
    odd = np.array([np.inf, -np.inf, np.nan, 448.1, 464, 465, 480, -1e9, 57344, 61440, 61441, 3e38, 1e-45, -1e-9, 2**-10, 2**-17], np.float32)
    drawn = (np.random.default_rng(3).standard_normal(300) * 10.0 ** np.random.default_rng(4).integers(-6, 6, 300)).astype(np.float32)
    near = [np.nextafter(middles, side, dtype=np.float32) for side in (np.float32(np.inf), np.float32(-np.inf))]
    x = np.concatenate([exact, middles, *near, odd, drawn])
    made = [np.zeros(x.size, np.uint8) for _ in tables]
    rounded[-(-x.size // 128)](x, *made, x.size)
    for found, table in zip(made, tables):
        np.testing.assert_array_equal(found, [nearest(v, table) for v in x])
