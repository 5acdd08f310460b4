"""Integers of every width: they wrap, division truncates toward zero, `%` is C's remainder, shifts follow the sign."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[1])
def widths(
    o8: ptr(i8) @ grid[1], o16: ptr(i16) @ grid[1], o32: ptr(i32) @ grid[1], o64: ptr(i64) @ grid[1],
    p8: ptr(u8) @ grid[1], p16: ptr(u16) @ grid[1], p32: ptr(u32) @ grid[1], p64: ptr(u64) @ grid[1],
    big: i64 @ grid[1],
):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(o8, p=thread[1], offset=t) as x:
            x[0] = i8(big)
        with partition(o16, p=thread[1], offset=t) as x:
            x[0] = i16(big)
        with partition(o32, p=thread[1], offset=t) as x:
            x[0] = i32(big)
        with partition(o64, p=thread[1], offset=t) as x:
            x[0] = big * 3
        with partition(p8, p=thread[1], offset=t) as x:
            x[0] = u8(big)
        with partition(p16, p=thread[1], offset=t) as x:
            x[0] = u16(big)
        with partition(p32, p=thread[1], offset=t) as x:
            x[0] = u32(big)
        with partition(p64, p=thread[1], offset=t) as x:
            x[0] = u64(big)


@kernel
@requires(grid[1], block[1], thread[64])
def arithmetic(a: ptr(const(int)) @ grid[1], b: ptr(const(int)) @ grid[1], out: ptr(int, (6, 64)) @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: (k, t)) as mine:
            mine[0] = a[t] / b[t]
            mine[1] = a[t] // b[t]
            mine[2] = a[t] % b[t]
            mine[3] = a[t] >> 3
            mine[4] = a[t] * 1000003 + (a[t] << 5 ^ ~b[t] & 0xFF | 1)
            mine[5] = int(u32(a[t]) >> 3)


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
    np.testing.assert_array_equal(out[1], quotient)
    np.testing.assert_array_equal(out[2], wide - quotient * other)
    np.testing.assert_array_equal(out[3], wide >> 3)
    mixed = (wide << 5).astype(np.int32) ^ (~b & 0xFF) | 1
    np.testing.assert_array_equal(out[4], (wide * 1000003 + mixed).astype(np.int32))
    np.testing.assert_array_equal(out[5], (a.view(np.uint32) >> 3).view(np.int32))
