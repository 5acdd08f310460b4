"""Scalar arithmetic as on the GPU, on NumPy arrays and NumPy scalars alike.

Integers wrap, `/` and `%` truncate toward zero, `//` and `mod` round down, shifts clamp, float to integer saturates.  A
bf16 value is held as the f32 that equals it and rounded after each operation; in memory it is its 16 bits.  Nothing
here raises or warns for any operand (callers run under `np.errstate(all="ignore")`).
"""

from __future__ import annotations

import numpy as np

from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Scalar, ScalarKind

REGISTER = {
    BOOL: np.bool_,
    I8: np.int8,
    I16: np.int16,
    I32: np.int32,
    I64: np.int64,
    U8: np.uint8,
    U16: np.uint16,
    U32: np.uint32,
    U64: np.uint64,
    F16: np.float16,
    BF16: np.float32,
    F32: np.float32,
    F64: np.float64,
}
MEMORY = {**REGISTER, BF16: np.uint16}
BITS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

_u32 = np.uint32
_ONE, _HALF, _QUIET, _SIXTEEN = _u32(1), _u32(0x7FFF), _u32(0x40), _u32(16)


def constant(value: int | float | bool, type: Scalar) -> np.generic:
    with np.errstate(all="ignore"):
        if type == BF16:
            return round_bf16(np.float64(value))
        if type.is_integer:
            return np.array(int(value) & ((1 << type.bits) - 1), BITS[type.bits]).view(REGISTER[type])[()]
        return REGISTER[type](value)


# ---- floats ---------------------------------------------------------------------------------------------------------


def bf16_bits(x):
    """f32 -> the 16 bits of the nearest bf16, ties to even."""
    u = x.view(_u32)
    rounded = (u + _HALF + ((u >> _SIXTEEN) & _ONE)) >> _SIXTEEN
    return np.where(np.isnan(x), (u >> _SIXTEEN) | _QUIET, rounded).astype(np.uint16)[()]


def from_bf16_bits(u):
    return (u.astype(_u32) << _SIXTEEN).view(np.float32)


def round_bf16(x):
    """f32 or f64 -> nearest bf16, held as f32."""
    if x.dtype == np.float64:
        x = narrow_odd(x)
    return from_bf16_bits(bf16_bits(x))


def round_tf32(x):
    """f32 -> nearest tf32 (10 bits of mantissa), ties away from zero, held as f32."""
    u = x.view(_u32)
    rounded = ((u + _u32(0x1000)) & _u32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)[()]


def loaded_as_tf32(x):
    """f32 -> nearest tf32, ties to even, as TMA loads of an H200 round; every NaN becomes the same."""
    u = x.view(_u32)
    rounded = (u + _u32(0xFFF) + (u >> _u32(13) & _u32(1))) & _u32(0xFFFFE000)
    return np.where(np.isnan(x), _u32(0x7FFFE000), rounded).view(np.float32)


def narrow_odd(x):
    """f64 -> f32 rounded to odd, so that rounding once more to fewer bits is as good as rounding once."""
    f = x.astype(np.float32)
    back = f.astype(np.float64)
    u = f.view(np.int32)
    inexact = (back != x) & np.isfinite(x)
    # Step back to the neighbor toward zero where rounding went away from it (also from infinity), then make the last
    # bit odd.
    toward_zero = np.where(inexact & (np.abs(back) > np.abs(x)), u - np.int32(1), u)
    return np.where(inexact, toward_zero | np.int32(1), u).astype(np.int32)[()].view(np.float32)


def fma(a, b, c, type: Scalar):
    """a * b + c, rounded once (f64: where neither the product's error nor its splitting leaves the range)."""
    if type == F64:
        return _fma64(a, b, c)
    product = a.astype(np.float64) * b.astype(np.float64)  # exact for every narrower type
    exact = _sum_odd(product, c.astype(np.float64))
    return round_bf16(exact) if type == BF16 else exact.astype(REGISTER[type])


def _sum_odd(a, b):
    """a + b rounded to odd in f64."""
    s, error = _two_sum(a, b)
    bits = s.view(np.int64)
    adjust = (error != 0) & ((bits & np.int64(1)) == 0) & np.isfinite(s)
    step = np.where((error > 0) == (s > 0), np.int64(1), np.int64(-1))
    return np.where(adjust, bits + step, bits)[()].view(np.float64)


def two_product(a, b):
    """The product of two f64 as a sum of two, where nothing leaves their range: rounded, and what that left out."""
    split = np.float64(134217729.0)
    ah = a * split
    ah = ah - (ah - a)
    bh = b * split
    bh = bh - (bh - b)
    al, bl = a - ah, b - bh
    p = a * b
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _fma64(a, b, c):
    """The product as a sum of two numbers, and c added with all that was left out rounded to odd.  Where the product is
    exact, one sum is enough.
    """
    p, e = two_product(a, b)
    low, lost = _two_sum(c, e)
    high, rest = _two_sum(p, low)
    exact = high + _sum_odd(lost, rest)
    return np.where((e != 0) & np.isfinite(exact), exact, p + c)[()]


def _two_sum(a, b):
    """a + b, and what rounding left out of it."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


# ---- integers -------------------------------------------------------------------------------------------------------


def _never_negative(x) -> bool:
    return x.dtype.kind == "u" or (x.size > 0 and x.min() >= 0)


def quotient(a, b):
    """Truncates toward zero; division by zero gives all ones."""
    q = a // b
    if not (_never_negative(a) and _never_negative(b)):
        wrong = ((a < 0) != (b < 0)) & (q * b != a)
        q = q + wrong.astype(q.dtype)
    if not np.all(b):
        q = np.where(b == 0, ~np.zeros((), q.dtype), q)[()]
    return q


def remainder(a, b):
    """C's remainder: the sign of `a`; by zero it gives `a`."""
    if _never_negative(a) and _never_negative(b):
        r = a - a // b * b
    else:
        r = np.fmod(a, b)
    if not np.all(b):
        r = np.where(b == 0, a, r)[()]
    return r


def floor_quotient(a, b):
    """Rounds down; division by zero gives all ones."""
    q = a // b
    return q if np.all(b) else np.where(b == 0, ~np.zeros((), q.dtype), q)[()]


def floor_remainder(a, b):
    """Return what rounding down leaves: it has the sign of `b`; a division by zero gives `a`."""
    r = a % b
    return r if np.all(b) else np.where(b == 0, a, r)[()]


def shift_left(a, n, bits: int):
    n = n.astype(np.int64)
    inside = (n >= 0) & (n < bits)
    return np.where(inside, a << (n & (bits - 1)).astype(a.dtype), a.dtype.type(0))[()]


def shift_right(a, n, bits: int):
    """Arithmetic for signed types; a count beyond the width (a negative one counts as huge) gives zero, or the sign."""
    n = n.astype(np.int64)
    inside = (n >= 0) & (n < bits)
    if a.dtype.kind == "i":
        return a >> np.where(inside, n, bits - 1).astype(a.dtype)[()]
    return np.where(inside, a >> (n & (bits - 1)).astype(a.dtype), a.dtype.type(0))[()]


def multiply_high(a, b):
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    ua, ub = a.astype(np.uint64), b.astype(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    al, ah, bl, bh = ua & low, ua >> half, ub & low, ub >> half
    middle = ah * bl + ((al * bl) >> half)
    other = al * bh + (middle & low)
    high = ah * bh + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, ub, zero) - np.where(b < 0, ua, zero)
    return high.astype(a.dtype)[()]


def packed_dot(a, b, c, bits: int, first: int):
    """c plus the products of the numbers of so many bits in each word of a, lowest first, with the bytes of b from
    number `first` on.  All are signed where the words are; the sum wraps.
    """
    for k in range(32 // bits):
        c = c + _packed(a, k * bits, bits) * _packed(b, 8 * (first + k), 8)
    return c


def _packed(x, low: int, bits: int):
    return x << x.dtype.type(32 - low - bits) >> x.dtype.type(32 - bits)


def _as_bits(x):
    """The bits of an integer as CUDA's bit functions see them: at least 32, sign-extended."""
    wide = 32 if x.dtype.itemsize < 8 else 64
    return x.astype(BITS[wide]), wide


def population_count(x):
    u, wide = _as_bits(x)
    u = u.astype(np.uint64)
    m1, m2, m4 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
    u = u - ((u >> np.uint64(1)) & m1)
    u = (u & m2) + ((u >> np.uint64(2)) & m2)
    u = (u + (u >> np.uint64(4))) & m4
    return ((u * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.int32)


def leading_zeros(x):
    u, wide = _as_bits(x)
    u = u.astype(np.uint64)
    for step in (1, 2, 4, 8, 16, 32):
        u = u | (u >> np.uint64(step))
    return np.int32(wide) - population_count(u)


def find_first_set(x):
    """Position of the lowest one bit, counted from 1; 0 where there is none."""
    u, _ = _as_bits(x)
    below = (u & (~u + u.dtype.type(1))) - u.dtype.type(1)
    return np.where(u == 0, np.int32(0), population_count(below) + np.int32(1)).astype(np.int32)[()]


def reverse_bits(x):
    bits = 8 * x.dtype.itemsize
    u = x.astype(BITS[bits])
    kind = u.dtype.type
    out = u & kind(0)
    for _ in range(bits):
        out = (out << kind(1)) | (u & kind(1))
        u = u >> kind(1)
    return out.astype(x.dtype)


# ---- conversions ----------------------------------------------------------------------------------------------------


def saturate(x, type: Scalar):
    """Float to integer: toward zero, clamped to the type's range.  NaN is 0, but where 64 bits are involved only the
    top bit is set, as PTX has it (fewer than 32 bits are clamped from that).
    """
    dtype = REGISTER[type]
    range_ = np.iinfo(dtype)
    t = np.trunc(x.astype(np.float64))
    above = t >= np.ldexp(1.0, type.bits - (type.kind is ScalarKind.INT))
    inside = ~(above | (t < float(range_.min)) | np.isnan(t))
    out = np.where(inside, t, 0.0).astype(dtype)
    if type.bits == 64 or x.dtype == np.float64:
        top = range_.min if type.kind is ScalarKind.INT else 1 << (type.bits - 1) if type.bits >= 32 else range_.max
        out = np.where(np.isnan(t), dtype(top), out)
    return np.where(above, dtype(range_.max), np.where(t < float(range_.min), dtype(range_.min), out))[()]


def _short(x, source: Scalar):
    """A 64-bit integer with at most 53 bits, odd where some were lost, so that rounding once more to fewer bits is as
    good as rounding once.
    """
    if source not in (I64, U64):
        return x
    kind, lost = x.dtype.type, x & x.dtype.type(0x7FF)
    odd = (x - lost) | np.where(lost != 0, kind(0x800), kind(0))
    return np.where((x >> kind(53) == 0) | (x >> kind(53) == kind(0) - kind(source == I64)), x, odd)[()]


def convert(x, source: Scalar, to: Scalar):
    """The value as another type, by C's rules."""
    if source == to:
        return x
    if to.kind is ScalarKind.BOOL:
        return x != source_zero(source)
    if to == BF16:
        return round_bf16(x.astype(np.float32) if source in (F16, F32) else _short(x, source).astype(np.float64))
    if source.is_float and to.is_integer:
        return saturate(x, to)
    return x.astype(REGISTER[to])


def source_zero(type: Scalar):
    return REGISTER[type](0)


def to_memory(x, type: Scalar):
    return bf16_bits(x) if type == BF16 else x


def from_memory(x, type: Scalar):
    return from_bf16_bits(x) if type == BF16 else x


def reinterpret(parts: list, source: Scalar, to: Scalar) -> list:
    """The bits of consecutive scalars (lowest address first) as consecutive scalars of another type."""
    shape = np.broadcast_shapes(*(np.shape(part) for part in parts))
    stacked = np.stack([np.broadcast_to(to_memory(part, source), shape) for part in parts], axis=-1).astype(
        MEMORY[source], copy=False
    )
    seen = np.ascontiguousarray(stacked).view(MEMORY[to])
    return [from_memory(np.ascontiguousarray(seen[..., k])[()], to) for k in range(seen.shape[-1])]


def bitcast(x, source: Scalar, to: Scalar):
    bits = to_memory(x, source)
    if MEMORY[source] is np.bool_:
        bits = bits.astype(np.uint8)
    if MEMORY[to] is np.bool_:
        return bits.view(np.uint8) != np.uint8(0)
    return from_memory(bits.view(MEMORY[to]), to)


# ---- floats of 8 bits -----------------------------------------------------------------------------------------------


def _small_floats(exponent_bits: int, mantissa_bits: int, infinite: bool) -> np.ndarray:
    """The f32 of each byte."""
    bits = np.arange(256)
    mantissa, exponent = bits & ((1 << mantissa_bits) - 1), bits >> mantissa_bits & ((1 << exponent_bits) - 1)
    bias, steps = (1 << (exponent_bits - 1)) - 1, 1 << mantissa_bits
    value = np.where(
        exponent == 0, np.ldexp(mantissa / steps, 1 - bias), np.ldexp(1 + mantissa / steps, exponent - bias)
    )
    top = (1 << exponent_bits) - 1
    if infinite:
        value = np.where(exponent == top, np.where(mantissa == 0, np.inf, np.nan), value)
    else:
        value = np.where((exponent == top) & (mantissa == steps - 1), np.nan, value)
    return np.where(bits & 0x80, -value, value).astype(np.float32)


BYTES = {"e4m3": _small_floats(4, 3, False), "e5m2": _small_floats(5, 2, True)}


def to_byte(x, kind: str):
    """f32 -> the bits of the nearest float of 8 bits, ties to even; what is above the largest, infinities too, becomes
    that (PTX: `.satfinite`), and a NaN 0x7f.
    """
    values = BYTES[kind][:128].astype(np.float64)
    values = values[np.isfinite(values)]  # those not negative, in order of their bits
    size = np.abs(np.asarray(x, np.float64))
    below = np.clip(np.searchsorted(values, size, side="right") - 1, 0, len(values) - 1)
    above = np.minimum(below + 1, len(values) - 1)
    middle = (values[below] + values[above]) / 2
    up = (size > middle) | (size == middle) & (below % 2 == 1)
    bits = np.where(up, above, below) | np.where(np.signbit(x), 0x80, 0)
    return np.where(np.isnan(x), 0x7F, bits).astype(np.uint8)[()]
