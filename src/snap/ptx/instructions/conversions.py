"""`cvt`: between integers, floats, floats of fewer bits in pairs, and packed integers.

Input: the words behind `cvt`.  Output: its operation, or None where there is no such form.  Stochastic rounding (`.rs`)
and scales (`ue8m0`) are not here.
"""

from __future__ import annotations

import numpy as np

from snap.machine.lanes import numbers
from snap.ptx.instructions.integers import Words
from snap.ptx.instructions.operation import Operation
from snap.ptx.instructions.rounding import (
    FORMATS,
    ROUNDING,
    Compute,
    ended,
    flushed,
    narrow,
    packed,
    quiet,
    short_nan,
    wide,
)
from snap.ptx.text.types import DTYPE

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FLOATS = ("f16", "bf16", "f32", "f64")
_WHOLE = tuple(f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64))
_BYTES = {"e4m3x2": "e4m3", "e5m2x2": "e5m2", "e2m3x2": "e2m3", "e3m2x2": "e3m2", "e2m1x2": "e2m1"}
_FRACTION = {"e4m3": (3, 7), "e5m2": (2, 15), "e2m3": (3, 1), "e3m2": (2, 3), "e2m1": (1, 1)}  # bits, and the bias


def conversion(words: Words) -> Operation | None:
    if words[0] == "pack":
        return _pack(words[1:])
    if len(words) < 2:
        return None
    *mods, to, source = words
    if to in _BYTES or source in _BYTES:
        return _small(to, source, mods)
    if to in ("f16x2", "bf16x2"):
        half = _to_half(to[:-2], mods) if source == "f32" else None
        return None if half is None else Operation((source, source), to, _side_by_side(half))
    if to == "tf32":
        return _to_tf32(mods) if source == "f32" else None
    if to in ("f16", "bf16") and source == "f32" and set(mods) & {"relu", "satfinite"}:
        one = _to_half(to, mods)
        return None if one is None else Operation((source,), to, one)
    return _plain(to, source, mods)


def _side_by_side(half: Compute) -> Compute:
    """The first operand above the second."""

    def both(high: np.ndarray, low: np.ndarray) -> np.ndarray:
        words = [half(x).view(np.uint16).astype(np.uint32) for x in (high, low)]
        return words[0] << np.uint32(16) | words[1]

    return both


def _plain(to: str, source: str, mods: list[str]) -> Operation | None:
    if to not in (*_FLOATS, *_WHOLE) or source not in (*_FLOATS, *_WHOLE):
        return None
    if not set(mods) <= {*ROUNDING, *_INTEGRAL, "ftz", "sat"} or len(set(mods)) != len(mods):
        return None
    if to in _WHOLE:
        compute = _to_integer(to, source, mods) if source in _FLOATS else _between(to, source, mods)
    else:
        compute = _to_float(to, source, mods)
    return None if compute is None else Operation((source,), to, compute)


# ---- to integers ----------------------------------------------------------------------------------------------------


def _between(to: str, source: str, mods: list[str]) -> Compute | None:
    if mods not in ([], ["sat"]):
        return None
    into = DTYPE[to]

    def compute(x: np.ndarray) -> np.ndarray:
        if mods:
            ours, theirs = np.iinfo(into), np.iinfo(x.dtype)
            x = np.clip(x, x.dtype.type(max(ours.min, theirs.min)), x.dtype.type(min(ours.max, theirs.max)))
        return x.astype(into)

    return compute


def _to_integer(to: str, source: str, mods: list[str]) -> Compute | None:
    """Clamped to the type's range.  NaN is 0; where 64 bits are involved, only the top bit is set, as GPUs have it."""
    how = [_INTEGRAL[m] for m in mods if m in _INTEGRAL]
    if len(how) != 1 or set(mods) & set(ROUNDING):
        return None
    limits, into = np.iinfo(DTYPE[to]), DTYPE[to]
    least, most = float(limits.min), float(limits.max)
    low, high = (into.type(x) for x in (limits.min, limits.max))
    none = high - high // into.type(2) if into.kind == "u" else low
    none = none if limits.bits == 64 or source == "f64" else into.type(0)

    def compute(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            x = wide(flushed(x, source) if "ftz" in mods else x, source)
            whole = how[0](x)
            inside = (whole > least) & (whole < most)
            ends = np.where(whole >= most, high, low)
            found = np.where(inside, np.where(inside, whole, 0.0).astype(into), ends)
            return np.where(np.isnan(x), none, found)

    return compute


# ---- to floats ------------------------------------------------------------------------------------------------------


def _to_float(to: str, source: str, mods: list[str]) -> Compute | None:
    modes = [m for m in mods if m in ROUNDING]
    how = [_INTEGRAL[m] for m in mods if m in _INTEGRAL]
    shorter = source in _WHOLE or _digits(to) < _digits(source) or {to, source} == {"f16", "bf16"}
    if len(modes) > 1 or len(how) > 1 or modes and how or bool(modes) != shorter:
        return None
    if how and (to != source) or "ftz" in mods and "f32" not in (to, source):
        return None
    mode = modes[0] if modes else "rn"

    def compute(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            if source in _WHOLE:
                value = _odd_integer(x) if to != "f64" and x.dtype.itemsize == 8 else None
                found = _from_long(x, mode) if to == "f64" else packed(_wide_integer(x, value), to, mode)
                return ended(found, to, set(mods) & {"sat"})
            if "ftz" in mods:
                x = flushed(x, source)
            value = wide(x, source)
            if how:
                value = how[0](value)
            elif to == source and not mods:
                return x
            elif (to, source) == ("f32", "bf16"):
                return numbers.from_bf16_bits(x)  # its bits, NaN or not
            found = packed(value, to, mode)
            if to == "f64":
                found = quiet(found)
            elif source == "f64":
                found = short_nan(x, found, to)
            return ended(found, to, set(mods) & ({"sat", "ftz"} if to == "f32" else {"sat"}))

    return compute


def _digits(type: str) -> int:
    return 53 if type == "f64" else FORMATS[type].digits


def _wide_integer(x: np.ndarray, odd: np.ndarray | None) -> np.ndarray:
    return x.astype(np.float64) if odd is None else odd


def _halves_of(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number of 64 bits as a sum of two f64, exactly."""
    low = (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)
    return (x - (x & x.dtype.type(0xFFFFFFFF))).astype(np.float64), low


def _odd_integer(x: np.ndarray) -> np.ndarray:
    """Rounded to odd, after which rounding again is as good as rounding once."""
    return numbers._sum_odd(*_halves_of(x))


def _from_long(x: np.ndarray, mode: str) -> np.ndarray:
    """To f64, in a direction."""
    near = x.astype(np.float64)
    if mode == "rn" or x.dtype.itemsize < 8:
        return near
    high, low = _halves_of(x)
    sum = high + low
    part = sum - high
    rest = (high - (sum - part)) + (low - part)
    toward = {"rp": np.inf, "rm": -np.inf}.get(mode, 0.0)
    wrong = (rest > 0) & (toward > sum) | (rest < 0) & (toward < sum)
    return np.where(wrong, np.nextafter(sum, toward), sum)


# ---- pairs of fewer bits --------------------------------------------------------------------------------------------


def _to_half(to: str, mods: list[str]) -> Compute | None:
    """f32 -> f16 or bf16; `.satfinite`: what is too large is the largest."""
    mode, *more = mods or [""]
    if mode not in ("rn", "rz") or more not in ([], ["relu"], ["satfinite"], ["relu", "satfinite"]):
        return None

    def compute(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return ended(packed(_finite(wide(x, "f32"), to, more), to, mode), to, set(more) & {"relu"})

    return compute


def _finite(x: np.ndarray, to: str, mods: list[str]) -> np.ndarray:
    most = FORMATS[to].most
    return np.where(np.isnan(x), x, np.clip(x, -most, most)) if "satfinite" in mods else x


def _to_tf32(mods: list[str]) -> Operation | None:
    """The lower 13 bits are zero.  `rna` leaves NaN what it was above them."""
    mode, *more = mods or [""]
    if mode not in ("rna", "rn", "rz") or not set(more) <= {"relu", "satfinite"} or len(set(more)) != len(more):
        return None
    if mode == "rna" and "relu" in more:
        return None

    def compute(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            value = narrow(_finite(wide(x, "f32"), "tf32", more), "tf32", mode).astype(np.float32)
            nan = x.view(np.uint32) & np.uint32(0xFFFFE000) if mode == "rna" else np.uint32(0x7FFFE000)
            found = ended(value, "f32", set(more) & {"relu"}).view(np.uint32)
            return np.where(np.isnan(x), nan, found)

    return Operation(("f32",), "b32", compute)


def encoded(x: np.ndarray, kind: str) -> np.ndarray:
    """f64 -> the bits of the nearest float of 8, 6 or 4 bits; what is too large is the largest, NaN too where there is
    none.
    """
    bits, bias = _FRACTION[kind]
    value = np.abs(narrow(np.clip(x, -FORMATS[kind].most, FORMATS[kind].most), kind))
    _, exponent = np.frexp(value)
    lowest = 1 - bias
    place = np.where(value == 0, lowest, np.maximum(exponent - 1, lowest))
    significand = np.ldexp(value, bits - place).astype(np.int64)
    found = (place - lowest << bits) + significand  # a subnormal's lacks the bit that counts the exponent up
    width = {"e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}[kind]
    found = found | np.where(np.signbit(x), 1 << width - 1, 0)
    nan = 0x7F if width == 8 else (1 << width - 1) - 1
    return np.where(np.isnan(x), nan, found).astype(np.uint32)


def decoded(x: np.ndarray, kind: str) -> np.ndarray:
    """The bits of a float of 8, 6 or 4 bits -> f64."""
    bits, bias = _FRACTION[kind]
    width = {"e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}[kind]
    whole = x.astype(np.int64) & ((1 << width) - 1)
    size = whole & ((1 << width - 1) - 1)
    exponent, fraction = size >> bits, size & ((1 << bits) - 1)
    value = np.where(
        exponent > 0,
        np.ldexp(1.0 + fraction / (1 << bits), exponent - bias),
        np.ldexp(fraction / (1 << bits), 1 - bias),
    )
    if kind == "e4m3":
        value = np.where(size == 0x7F, np.nan, value)
    if kind == "e5m2":
        value = np.where(size == 0x7C, np.inf, np.where(size > 0x7C, np.nan, value))
    return np.where(whole >> width - 1 != 0, -value, value)


def _small(to: str, source: str, mods: list[str]) -> Operation | None:
    """Two floats of fewer bits in a word: from two f32, the first above; from and to two halves."""
    if source in _BYTES:
        if to != "f16x2" or mods not in (["rn"], ["rn", "relu"]):
            return None
        kind, step = _BYTES[source], 4 if source == "e2m1x2" else 8

        def opened(x: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                parts = [
                    ended(packed(decoded(x >> step * k, kind), "f16"), "f16", set(mods) & {"relu"}) for k in (0, 1)
                ]
            low, high = (p.view(np.uint16).astype(np.uint32) for p in parts)
            return low | high << np.uint32(16)

        return Operation(("b8" if step == 4 else "b16",), "b32", opened)
    kind = _BYTES[to]
    if mods not in (["rn", "satfinite"], ["rn", "satfinite", "relu"]) or source not in ("f32", "f16x2"):
        return None
    if source == "f16x2" and kind not in ("e4m3", "e5m2"):
        return None
    step = 4 if kind == "e2m1" else 8

    def one(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            x = x.astype(np.float64)
            return encoded(np.where(x > 0, x, np.where(np.isnan(x), x, 0.0)) if "relu" in mods else x, kind)

    result, into = ("b8", np.uint8) if step == 4 else ("b16", np.uint16)
    if source == "f32":
        return Operation((source,) * 2, result, lambda high, low: (one(high) << step | one(low)).astype(into))
    part = lambda x, k: (x >> np.uint32(16 * k)).astype(np.uint16).view(np.float16)  # noqa: E731
    return Operation(("b32",), result, lambda x: (one(part(x, 1)) << step | one(part(x, 0))).astype(into))


# ---- packed integers ------------------------------------------------------------------------------------------------


def _pack(words: Words) -> Operation | None:
    """`cvt.pack.sat.u8.s32.b32`: two clamped numbers side by side, below what a third word has."""
    match words:
        case ("sat", "u16" | "s16" as to, "s32"):
            third = False
        case ("sat", "u8" | "s8" | "u4" | "s4" | "u2" | "s2" as to, "s32", "b32"):
            third = True
        case _:
            return None
    bits = int(to[1:])
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)

    def compute(a: np.ndarray, b: np.ndarray, *more: np.ndarray) -> np.ndarray:
        parts = [np.clip(x, least, most).astype(np.uint32) & np.uint32((1 << bits) - 1) for x in (a, b)]
        found = parts[0] << np.uint32(bits) | parts[1]
        return found | more[0] << np.uint32(2 * bits) if more else found

    return Operation(("s32", "s32", "b32") if third else ("s32", "s32"), "b32", compute)
