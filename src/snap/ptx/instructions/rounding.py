"""Directions of rounding, `.ftz`, `.sat`, `.relu`: what instructions on floats have in common.

Rule: a result is the exact one, rounded once, in the direction that is asked for.  Types of fewer than 64 bits are
computed in f64: where that is not exact it is rounded to odd, after which rounding to at most 51 bits is as good as
rounding once (Boldo and Melquiond, 2008).  f64 itself, where NumPy does not round as asked, is computed with whole
numbers (exact.py).  NaN that f32, f16 and bf16 compute is the one that GPUs know, all ones but the sign; f64 keeps
an operand's (`which_nan`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snap._compiler.ir.types import F32
from snap.machine.lanes import numbers
from snap.ptx.instructions import exact
from snap.record import record

Compute = Callable[..., np.ndarray]
ROUNDING = ("rn", "rz", "rm", "rp")
FLOATS = ("f16", "bf16", "f32", "f64")


@record
class Format:
    """bits of the significand, the exponent of the smallest normal number, the largest number."""

    digits: int
    least: int
    most: float


FORMATS = {
    "f16": Format(11, -14, 65504.0),
    "bf16": Format(8, -126, float(2**128 - 2**120)),
    "f32": Format(24, -126, float(2**128 - 2**104)),
    "tf32": Format(11, -126, float(2**128 - 2**117)),
    "e4m3": Format(4, -6, 448.0),
    "e5m2": Format(3, -14, 57344.0),
    "e2m3": Format(4, 0, 7.5),
    "e3m2": Format(3, -2, 28.0),
    "e2m1": Format(2, 0, 6.0),
}
_NAN = {np.dtype("f4"): np.uint32(0x7FFFFFFF), np.dtype("f2"): np.uint16(0x7FFF)}
BF16_NAN = np.uint16(0x7FFF)


def wide(x: np.ndarray, type: str) -> np.ndarray:
    """Convert to f64, exactly."""
    return numbers.from_bf16_bits(x).astype(np.float64) if type == "bf16" else x.astype(np.float64)


def narrow(x: np.ndarray, type: str, mode: str = "rn") -> np.ndarray:
    """f64 -> the nearest number of a format in a direction, held as f64; 'rna': ties away from zero."""
    form = FORMATS[type]
    size = np.abs(x)
    _, exponent = np.frexp(size)
    unit = np.maximum(exponent - 1, form.least) - (form.digits - 1)
    scaled = np.ldexp(size, -unit)  # exact: a power of two, and at most 53 bits, none of them below
    low = np.floor(scaled)
    rest = scaled - low
    up: np.ndarray | bool
    match mode:
        case "rn":
            up = (rest > 0.5) | (rest == 0.5) & (low % 2 == 1)
        case "rna":
            up = rest >= 0.5
        case "rz":
            up = False
        case _:
            up = (rest > 0) & ((x > 0) == (mode == "rp"))
    found = np.ldexp(low + up, unit)
    outward = mode in ("rn", "rna") or (x > 0 if mode == "rp" else x < 0 if mode == "rm" else False)
    found = np.where(found > form.most, np.where(outward, np.inf, form.most), found)
    return np.copysign(np.where(np.isfinite(x), found, size), x)


def packed(x: np.ndarray, type: str, mode: str = "rn") -> np.ndarray:
    """f64 -> a type as registers hold it, rounded."""
    if type == "bf16":
        bits = numbers.bf16_bits(narrow(x, type, mode).astype(np.float32))
        return np.where(np.isnan(x), BF16_NAN, bits)
    dtype = np.dtype({"f16": "f2", "f32": "f4", "f64": "f8"}[type])
    return one_nan(x.astype(dtype) if mode == "rn" else narrow(x, type, mode).astype(dtype))


def one_nan(x: np.ndarray) -> np.ndarray:
    bits = _NAN.get(x.dtype)
    if bits is None:
        return x
    with np.errstate(all="ignore"):
        if not np.isnan(np.add.reduce(x, axis=None)):  # a sum that is no NaN has none in it
            return x
    return np.where(np.isnan(x), bits.view(x.dtype), x)


# Of f64, NaN keep their bits: whose come out, the first of these operands that is NaN says.
_FIRST = {"fma": (1, 2, 0), "div": (0, 1), "sqrt": (0,)}


def which_nan(op: str, found: np.ndarray, xs: tuple[np.ndarray, ...]) -> np.ndarray:
    """An operand's NaN is given as it is, but quiet; operations on numbers that have no result give one with a sign."""
    if not np.isnan(found).any():
        return found
    nan = np.full(found.shape, INVALID)
    for k in reversed(_FIRST.get(op, (1, 0))):
        nan = np.where(np.isnan(xs[k]), quiet(xs[k]), nan)
    return np.where(np.isnan(found), nan, found)


INVALID = np.uint64(0xFFF8000000000000).view(np.float64)


def quiet(x: np.ndarray) -> np.ndarray:
    """NaN of f64, as one that does not signal."""
    bits = np.ascontiguousarray(x).view(np.uint64)
    return np.where(np.isnan(x), bits | np.uint64(1 << 51), bits).view(np.float64)


def short_nan(x: np.ndarray, found: np.ndarray, type: str) -> np.ndarray:
    """f64 -> fewer bits: of NaN the sign and the highest bits are left.  found: what numbers become."""
    bits = quiet(x).view(np.uint64)
    width = {"f16": 16, "bf16": 16, "f32": 32}[type]
    fraction = FORMATS[type].digits - 1
    infinite = (1 << width - 1 - fraction) - 1 << fraction
    low = bits >> np.uint64(52 - fraction) & np.uint64((1 << fraction) - 1)
    nan = (bits >> np.uint64(63) << np.uint64(width - 1) | np.uint64(infinite) | low).astype(f"u{width // 8}")
    return np.where(np.isnan(x), nan, found.view(nan.dtype)).view(found.dtype)


# ---- .ftz, .sat, .relu ----------------------------------------------------------------------------------------------


def flushed(x: np.ndarray, type: str) -> np.ndarray:
    """Subnormal numbers as zero, with their sign."""
    if type not in ("f32", "f16"):
        return x
    tiny = np.finfo(x.dtype).tiny
    return np.where(np.abs(x) < tiny, np.copysign(x.dtype.type(0), x), x)


def begun(xs: tuple[np.ndarray, ...], type: str, mods: set[str]) -> tuple[np.ndarray, ...]:
    return tuple(flushed(x, type) for x in xs) if "ftz" in mods else xs


def ended(x: np.ndarray, type: str, mods: set[str]) -> np.ndarray:
    """Subnormal results are zero under `.ftz`; `.sat` keeps results from 0 to 1, NaN as 0; `.relu` from 0 on."""
    if "ftz" in mods:
        x = flushed(x, type)
    if "sat" in mods:
        if type == "bf16":
            value = numbers.from_bf16_bits(x)
            return numbers.bf16_bits(np.where(value > 0, np.minimum(value, np.float32(1)), np.float32(0)))
        x = np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))
    if "relu" in mods:
        if type == "bf16":
            return np.where((x & np.uint16(0x8000) != 0) & (x & np.uint16(0x7FFF) <= 0x7F80), np.uint16(0), x)
        x = np.where(np.isnan(x) | (x > 0), x, x.dtype.type(0))
    return x


# ---- sums and products ----------------------------------------------------------------------------------------------


def _odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b of f64, rounded to odd."""
    return numbers._sum_odd(*np.broadcast_arrays(a, b))


def _narrower(op: str, xs: list[np.ndarray]) -> np.ndarray:
    """Convert to what types of at most 32 bits hold: exactly, or rounded to odd."""
    match op:
        case "add":
            return _odd(xs[0], xs[1])
        case "sub":
            return _odd(xs[0], -xs[1])
        case "mul":
            return xs[0] * xs[1]
        case "fma":
            return _odd(xs[0] * xs[1], xs[2])
        case "div":
            return _odd_where(xs[0] / xs[1], lambda q: exact.quotient_left(xs[0], q, xs[1]))
        case "sqrt":
            return _odd_where(np.sqrt(xs[0]), lambda q: exact.root_left(xs[0], q))
    raise ValueError(op)


def _odd_where(near: np.ndarray, left: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The nearest f64, made odd where something (its sign: of what is left) was rounded away."""
    rest = left(near)
    rest = np.where(np.isfinite(near) & np.isfinite(rest), rest, 0.0)  # what is divided by infinity is zero
    bits = np.array(near).view(np.int64)
    adjust = (rest != 0) & (bits & 1 == 0) & np.isfinite(near)
    step = np.where((rest > 0) == (near > 0), np.int64(1), np.int64(-1))
    return np.where(adjust, bits + step, bits).view(np.float64)


def _fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The product is exact in f64.  The sum, rounded there and then to f32, is what rounding once gives, unless it lies
    half-way between two f32, where what the first rounding left out decides: of those the lower 28 bits are zero, and
    the sum is no f32 itself.
    """
    sum = a.astype(np.float64) * b + c
    found = sum.astype(np.float32)
    doubtful = sum.view(np.int64) & np.int64((1 << 28) - 1) == 0
    if doubtful.any():
        doubtful &= found != sum
        x, y, z = (np.broadcast_to(given, found.shape)[doubtful] for given in (a, b, c))
        found[doubtful] = numbers.fma(x, y, z, F32)
    return found


_NEAREST: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
}


def floating(op: str, type: str, mods: set[str]) -> Compute:
    """`op` is add, sub, mul, fma, div or sqrt; mods: the direction, ftz, sat, relu."""
    mode = next((m for m in ROUNDING if m in mods), "rn")

    def result(xs: tuple[np.ndarray, ...]) -> np.ndarray:
        if type == "f64":
            found = _NEAREST[op](*xs) if mode == "rn" and op != "fma" else exact.f64(op, xs, mode)
            return which_nan(op, found, xs)
        if type == "f32" and mode == "rn":
            return one_nan(_fma32(*xs) if op == "fma" else _NEAREST[op](*xs))
        found = _narrower(op, [wide(x, type) for x in np.broadcast_arrays(*xs)])
        return signed_zero(op, packed(found, type, mode), xs, type, mode)

    def compute(*xs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return ended(result(begun(xs, type, mods)), type, mods)

    return compute


def signed_zero(op: str, found: np.ndarray, xs: tuple[np.ndarray, ...], type: str, mode: str) -> np.ndarray:
    """Numbers that cancel out leave +0, but -0 where results are rounded down."""
    if mode != "rm" or op not in ("add", "sub", "fma"):
        return found
    first, *more = (wide(x, type) for x in np.broadcast_arrays(*xs))
    a, b = (first, more[0] if op == "add" else -more[0]) if op != "fma" else (first * more[0], more[1])
    both = (a == -b) & np.isfinite(a) & ~((a == 0) & ~np.signbit(a) & ~np.signbit(b))
    minus = np.array(-0.0, found.dtype) if found.dtype.kind == "f" else np.uint16(0x8000)
    return np.where(both, minus, found)
