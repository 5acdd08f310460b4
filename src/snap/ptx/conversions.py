"""`cvt`: between integers, floats, and floats of 8 bits."""

from __future__ import annotations

import numpy as np

from snap.machine import numbers
from snap.ptx.operation import Operation
from snap.ptx.rounding import FLOATS, ROUNDING, begun, directed, ended
from snap.ptx.types import DTYPE

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def conversion(words: tuple[str, ...]) -> Operation | None:
    *mods, to, source = words
    if to in _PAIRS or source in _PAIRS:
        return _cvt_bytes(to, source, set(mods))
    if to not in DTYPE or source not in DTYPE:
        return None
    known = {*ROUNDING, *_INTEGRAL, "ftz", "sat", "rna", "relu"}
    if not set(mods) <= known or "relu" in mods:
        return None
    if to in ("f16x2", "bf16x2"):
        one = conversion((*mods, to[:-2], source))
        if one is None:
            return None

        def packed(high: np.ndarray, low: np.ndarray) -> np.ndarray:
            words = [one.compute(x).view(np.uint16).astype(np.uint32) for x in (high, low)]
            return words[0] << np.uint32(16) | words[1]

        return Operation((source, source), to, packed)
    return Operation((source,), to, lambda x: _converted(x, source, to, set(mods)))


_PAIRS = {"e4m3x2": "e4m3", "e5m2x2": "e5m2"}


def _cvt_bytes(to: str, source: str, mods: set[str]) -> Operation | None:
    """Two floats of 8 bits in a word of 16; what is too large becomes the largest (`.satfinite`)."""
    if not mods <= {"rn", "satfinite"}:
        return None
    if source in _PAIRS and to == "f16x2":
        table = numbers.BYTES[_PAIRS[source]].astype(np.float16).view(np.uint16).astype(np.uint32)
        return Operation(
            ("b16",), "b32", lambda x: table[x & np.uint16(255)] | table[x >> np.uint16(8)] << np.uint32(16)
        )
    if to in _PAIRS and source in ("f32", "f16x2"):
        byte = lambda x: numbers.to_byte(x, _PAIRS[to]).astype(np.uint16)  # noqa: E731
        if source == "f32":
            return Operation(("f32", "f32"), "b16", lambda high, low: byte(high) << np.uint16(8) | byte(low))
        half = lambda x: x.astype(np.uint16).view(np.float16).astype(np.float32)  # noqa: E731
        return Operation(("b32",), "b16", lambda x: byte(half(x >> np.uint32(16))) << np.uint16(8) | byte(half(x)))
    return None


def _converted(x: np.ndarray, source: str, to: str, mods: set[str]) -> np.ndarray:
    with np.errstate(all="ignore"):
        if source == "bf16":
            x = numbers.from_bf16_bits(x)
        from_float, to_float = source in FLOATS or source == "tf32", to in FLOATS or to == "tf32"
        integral = next((f for word, f in _INTEGRAL.items() if word in mods), None)
        (x,) = begun((x,), mods)
        if from_float and not to_float:
            whole = (integral or np.trunc)(x.astype(np.float64))
            limits = np.iinfo(DTYPE[to])
            inside = np.where(np.isnan(whole), 0.0, whole)
            most = float(limits.max)
            clipped = np.where(inside >= most, limits.max, np.where(inside <= float(limits.min), limits.min, 0))
            regular = (inside < most) & (inside > float(limits.min))
            safe = np.where(regular, inside, 0.0).astype(DTYPE[to])
            found = np.where(regular, safe, clipped.astype(DTYPE[to]))
            if limits.bits == 64 and np.isnan(x).any():
                found = np.where(np.isnan(x), np.array(1 << 63, np.uint64).view(DTYPE[to]), found)
            return found
        if to_float:
            if from_float and integral is not None:
                x = integral(x)
            if to == "bf16":
                return numbers.bf16_bits(numbers.round_bf16(x))
            if to == "tf32":
                return numbers.round_tf32(x.astype(np.float32))
            return ended(_narrowed(x, DTYPE[to], mods), mods)
        if "sat" in mods:
            limits = np.iinfo(DTYPE[to])
            low = max(limits.min, int(np.iinfo(x.dtype).min))
            high = min(limits.max, int(np.iinfo(x.dtype).max))
            x = np.clip(x, x.dtype.type(low), x.dtype.type(high))
        return x.astype(DTYPE[to])


def _narrowed(x: np.ndarray, to: np.dtype, mods: set[str]) -> np.ndarray:
    """To a float type, in the direction that is asked for."""
    nearest = x.astype(to)
    mode = next((m for m in ("rz", "rm", "rp") if m in mods), None)
    if mode is None or to.itemsize == 8:
        return nearest
    wide = x.astype(np.float64)
    return directed(nearest, wide - nearest.astype(np.float64), mode)
