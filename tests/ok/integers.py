"""Integers of every width: they wrap, `/` truncates toward zero, `//` and `%` round down as Python's, shifts follow the sign."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=1, where=lambda blocks, o16, o32, o64, o8, p16, p32, p64, p8: (len(o8) >= blocks, len(o16) >= blocks, len(o32) >= blocks, len(o64) >= blocks, len(p8) >= blocks, len(p16) >= blocks, len(p32) >= blocks, len(p64) >= blocks))
def widths(o8: ptr(i8), o16: ptr(i16), o32: ptr(i32), o64: ptr(i64), p8: ptr(u8), p16: ptr(u16), p32: ptr(u32), p64: ptr(u64), big: i64):
    with each(thread, o8, o16, o32, o64, p8, p16, p32, p64) as t:
        o8[t], o16[t], o32[t], o64[t] = i8(big), i16(big), i32(big), big * 3
        p8[t], p16[t], p32[t], p64[t] = u8(big), u16(big), u32(big), u64(big)


@kernel(threads=64, where=lambda a, b, blocks: (len(a) >= 64 * blocks, len(b) >= 64 * blocks, blocks <= 1))
def arithmetic(a: ptr(const(int)), b: ptr(const(int)), out: ptr(int, (6, 64))):
    with each(thread, out) as t:
        out[0, t] = a[t] / b[t]
        out[1, t] = a[t] // b[t]
        out[2, t] = a[t] % b[t]
        out[3, t] = a[t] >> 3
        out[4, t] = a[t] * 1000003 + (a[t] << 5 ^ ~b[t] & 0xFF | 1)
        out[5, t] = int(u32(a[t]) >> 3)


def check():
    big = -81985529216486896  # 0xfedcba9876543210 as i64
    names = [np.zeros(1, t) for t in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)]
    widths[1](*names, big)
    for array in names:
        bits = array.dtype.itemsize * 8
        value = (big * 3 if array.dtype == np.int64 else big) % 2**bits
        assert int(array[0]) % 2**bits == value, array.dtype

    rng = np.random.default_rng(1)
    a = rng.integers(-(2**31), 2**31, 64).astype(np.int32)
    b = rng.integers(1, 1000, 64).astype(np.int32) * rng.choice([-1, 1], 64).astype(np.int32)
    out = np.zeros((6, 64), np.int32)
    arithmetic[1](a, b, out)
    wide, other = a.astype(np.int64), b.astype(np.int64)
    quotient = np.sign(wide) * np.sign(other) * (np.abs(wide) // np.abs(other))
    np.testing.assert_array_equal(out[0], quotient)
    np.testing.assert_array_equal(out[1], wide // other)
    np.testing.assert_array_equal(out[2], wide % other)
    np.testing.assert_array_equal(out[3], wide >> 3)
    mixed = (wide << 5).astype(np.int32) ^ (~b & 0xFF) | 1
    np.testing.assert_array_equal(out[4], (wide * 1000003 + mixed).astype(np.int32))
    np.testing.assert_array_equal(out[5], (a.view(np.uint32) >> 3).view(np.int32))
