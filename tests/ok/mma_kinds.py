"""Tensor-core products of bytes, halves of bytes, 8-bit floats and f64. Fragments are filled and emptied by hand, as PTX lays them out; the
results are compared with whole matrices."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda blocks: blocks == 1)
def of_bytes(a: ptr(const(i8), (16, 32)), b: ptr(const(u8), (8, 32)), c: ptr(const(int), (16, 8)), d: ptr(int, (3, 16, 8))):
    """m16n8k32 of s8 and u8, wrapping and saturated; then the first half of k alone, m16n8k16. b lies by columns."""
    with partition(d, p=warp) as dw, group(warp):
        t: int @ thread[1] = id()
        g: int @ thread[1] = t / 4
        q: int @ thread[1] = t % 4
        fa: i8[16] @ thread[1]
        fb: u8[8] @ thread[1]
        fc: int[4] @ thread[1]
        fd: int[4] @ thread[1]
        for i in range(16):
            fa[i] = a[g + 8 * (i / 4 % 2), 4 * q + i % 4 + 16 * (i / 8)]
        for i in range(8):
            fb[i] = b[g, 4 * q + i % 4 + 16 * (i / 4)]
        for i in range(4):
            fc[i] = c[g + 8 * (i / 2), 2 * q + i % 2]
        with partition(dw, p=thread[1], f=lambda s, i: (s, g + 8 * (i / 2), 2 * q + i % 2)) as mine:
            intrinsic.mma(fa, fb, fc, out=fd)
            for i in range(4):
                mine[0, i] = fd[i]
            intrinsic.mma(fa, fb, fc, out=fd, saturate=True)
            for i in range(4):
                mine[1, i] = fd[i]
            words: u32[3] @ thread[1]
            words[0] = fa.view(u32)[0]
            words[1] = fa.view(u32)[1]
            words[2] = fb.view(u32)[0]
            intrinsic.mma(words, fc, out=fc, type=("s8", "u8"))
            for i in range(4):
                mine[2, i] = fc[i]


@kernel(threads=32, where=lambda blocks: blocks == 1)
def of_nibbles(a: ptr(const(u32), (16, 8)), b: ptr(const(u32), (8, 8)), d: ptr(int, (2, 16, 8))):
    """m16n8k64 of s4 by s4, eight to a word, and m16n8k32 of u4 by u4."""
    with partition(d, p=warp) as dw, group(warp):
        t: int @ thread[1] = id()
        g: int @ thread[1] = t / 4
        q: int @ thread[1] = t % 4
        zero: int[4] @ thread[1]
        fd: int[4] @ thread[1]
        with partition(dw, p=thread[1], f=lambda s, i: (s, g + 8 * (i / 2), 2 * q + i % 2)) as mine:
            intrinsic.mma(a[g, q], a[g + 8, q], a[g, q + 4], a[g + 8, q + 4], b[g, q], b[g, q + 4], zero, out=fd, type="s4")
            for i in range(4):
                mine[0, i] = fd[i]
            intrinsic.mma(a[g, q], a[g + 8, q], b[g, q], zero, out=fd, type="u4")
            for i in range(4):
                mine[1, i] = fd[i]


@kernel(threads=32, where=lambda blocks: blocks == 1)
def of_small_floats(a: ptr(const(u8), (16, 32)), b: ptr(const(u8), (8, 32)), d: ptr(float, (2, 16, 8))):
    """m16n8k32 of e4m3 by e4m3, and of e5m2 by e4m3: the bits lie in u8."""
    with partition(d, p=warp) as dw, group(warp):
        t: int @ thread[1] = id()
        g: int @ thread[1] = t / 4
        q: int @ thread[1] = t % 4
        fa: u32[4] @ thread[1]
        fb: u32[2] @ thread[1]
        for i in range(4):
            fa[i] = a.view(u32)[g + 8 * (i % 2), q + 4 * (i / 2)]
        for i in range(2):
            fb[i] = b.view(u32)[g, q + 4 * i]
        fd: float[4] @ thread[1]
        with partition(dw, p=thread[1], f=lambda s, i: (s, g + 8 * (i / 2), 2 * q + i % 2)) as mine:
            intrinsic.mma(fa, fb, fd, out=fd, type="e4m3")
            for i in range(4):
                mine[0, i] = fd[i]
                fd[i] = 1.0
            intrinsic.mma(fa, fb, fd, out=fd, type=("e5m2", "e4m3"))
            for i in range(4):
                mine[1, i] = fd[i]


@kernel(threads=32, where=lambda blocks: blocks == 1)
def of_doubles(a: ptr(const(f64), (16, 16)), b: ptr(const(f64), (8, 16)), d: ptr(f64, (4, 16, 8))):
    """m8n8k4, which sm_80 has, then m16n8k4, m16n8k8 and m16n8k16 of sm_90."""
    with partition(d, p=warp) as dw, group(warp):
        t: int @ thread[1] = id()
        g: int @ thread[1] = t / 4
        q: int @ thread[1] = t % 4
        a16: f64[8] @ thread[1]
        b16: f64[4] @ thread[1]
        for i in range(8):
            a16[i] = a[g + 8 * (i % 2), q + 4 * (i / 2)]
        for i in range(4):
            b16[i] = b[g, q + 4 * i]
        two: f64[2] @ thread[1]
        intrinsic.mma(a16[0], b16[0], two, out=two)
        four: f64[4] @ thread[1]
        sums: f64[4] @ thread[1]
        with partition(dw, p=thread[1], f=lambda s, i: (s, g + 8 * (i / 2), 2 * q + i % 2)) as mine:
            mine[0, 0] = two[0]
            mine[0, 1] = two[1]
            intrinsic.mma(a16[0], a16[1], b16[0], four, out=sums)
            for i in range(4):
                mine[1, i] = sums[i]
            intrinsic.mma(a16[0], a16[1], a16[2], a16[3], b16[0], b16[1], four, out=sums)
            for i in range(4):
                mine[2, i] = sums[i]
            intrinsic.mma(a16, b16, four, out=sums)
            for i in range(4):
                mine[3, i] = sums[i]


def small_float(bits, exponent_bits, mantissa_bits, infinite):
    """One float of 8 bits, by its definition."""
    sign, rest = -1.0 if bits >> 7 else 1.0, bits & 127
    exponent, fraction = rest >> mantissa_bits, rest & (1 << mantissa_bits) - 1
    if infinite and exponent == (1 << exponent_bits) - 1:
        return sign * np.inf if fraction == 0 else np.nan
    if not infinite and rest == 127:
        return np.nan
    bias = (1 << exponent_bits - 1) - 1
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + fraction / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def check():
    rng = np.random.default_rng(6)
    a, b = rng.integers(-128, 128, (16, 32)).astype(np.int8), rng.integers(0, 256, (8, 32)).astype(np.uint8)
    c = rng.integers(-1000, 1000, (16, 8)).astype(np.int32)
    c[0], c[1] = 2**31 - 1, -(2**31)
    d = np.zeros((3, 16, 8), np.int32)
    of_bytes[1](a, b, c, d)
    exact = a.astype(np.int64) @ b.T.astype(np.int64) + c
    np.testing.assert_array_equal(d[0], exact.astype(np.int32))
    np.testing.assert_array_equal(d[1], exact.clip(-(2**31), 2**31 - 1))
    half = a[:, :16].astype(np.int64) @ b[:, :16].T.astype(np.int64) + c
    np.testing.assert_array_equal(d[2], half.astype(np.int32))

    a4, b4 = rng.integers(0, 16, (16, 64)), rng.integers(0, 16, (8, 64))
    words = lambda m: np.array(sum(m.reshape(len(m), 8, 8)[:, :, k].astype(np.uint32) << np.uint32(4 * k) for k in range(8)), np.uint32)
    d = np.zeros((2, 16, 8), np.int32)
    of_nibbles[1](words(a4), words(b4), d)
    signed = lambda m: np.where(m > 7, m - 16, m)
    np.testing.assert_array_equal(d[0], signed(a4) @ signed(b4).T)
    np.testing.assert_array_equal(d[1], a4[:, :32] @ b4[:, :32].T)

    e4m3, e5m2 = (np.array([small_float(k, *form) for k in range(256)]) for form in ((4, 3, False), (5, 2, True)))
    few = np.array([k for k in range(256) if np.isfinite(e4m3[k]) and abs(e4m3[k]) in (0, 0.5, 1, 2, 3, 4)], np.uint8)
    a, b = rng.choice(few, (16, 32)), rng.choice(few, (8, 32))
    d = np.zeros((2, 16, 8), np.float32)
    of_small_floats[1](a, b, d)
    np.testing.assert_array_equal(d[0], e4m3[a] @ e4m3[b].T)
    np.testing.assert_array_equal(d[1], e5m2[a] @ e4m3[b].T + 1)

    a, b = (rng.integers(-(1 << 22), 1 << 22, shape).astype(np.float64) / 8 for shape in ((16, 16), (8, 16)))  # sums of 48 bits
    d = np.zeros((4, 16, 8))
    of_doubles[1](a, b, d)
    np.testing.assert_array_equal(d[0, :8], a[:8, :4] @ b[:, :4].T)
    for k, found in zip((4, 8, 16), d[1:]):
        np.testing.assert_array_equal(found, a[:, :k] @ b[:, :k].T)
