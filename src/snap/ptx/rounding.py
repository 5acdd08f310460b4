"""Directions of rounding, `.ftz` and `.sat`: what instructions on floats have in common.

Sums and products are rounded once, in the direction that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snap.ir.types import BF16, F16, F32, F64
from snap.machine import numbers

Compute = Callable[..., np.ndarray]
SCALAR = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
ROUNDING = ("rn", "rz", "rm", "rp")
FLOATS = ("f16", "bf16", "f32", "f64")


def directed(nearest: np.ndarray, residual: np.ndarray, mode: str) -> np.ndarray:
    """The neighbour that a direction asks for: nearest is rounded to nearest, residual is what that left out."""
    up = {"rp": residual > 0, "rm": np.zeros(residual.shape, bool), "rz": (residual > 0) & (nearest < 0)}[mode]
    down = {"rm": residual < 0, "rp": np.zeros(residual.shape, bool), "rz": (residual < 0) & (nearest > 0)}[mode]
    big = np.array(np.inf, nearest.dtype)
    stepped = np.where(up, np.nextafter(nearest, big), np.where(down, np.nextafter(nearest, -big), nearest))
    return np.where(np.isfinite(residual), stepped, nearest)


def ended(x: np.ndarray, mods: set[str]) -> np.ndarray:
    """Subnormal results are zero under `.ftz`; `.sat` keeps results from 0 to 1, NaN as 0."""
    if "ftz" in mods and x.dtype == np.float32:
        x = np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)
    if "sat" in mods:
        x = np.where(np.isnan(x), x.dtype.type(0), np.clip(x, x.dtype.type(0), x.dtype.type(1)))
    return x


def begun(xs: tuple[np.ndarray, ...], mods: set[str]) -> tuple[np.ndarray, ...]:
    if "ftz" not in mods:
        return xs
    tiny = np.finfo(np.float32).tiny
    return tuple(
        np.where(np.abs(x) < tiny, np.copysign(np.float32(0), x), x) if x.dtype == np.float32 else x for x in xs
    )


def _exact32(op: str, xs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of f32: the result as the sum of two f64, exactly."""
    wide = [x.astype(np.float64) for x in xs]
    if op == "mul":
        product = wide[0] * wide[1]
        return product, np.zeros_like(product)
    if op == "fma":
        wide = [wide[0] * wide[1], wide[2]]
    if op == "sub":
        wide = [wide[0], -wide[1]]
    high = wide[0] + wide[1]
    part = high - wide[0]
    return high, (wide[0] - (high - part)) + (wide[1] - part)


def _fma(xs: tuple[np.ndarray, ...], type: str) -> np.ndarray:
    a, b, c = np.broadcast_arrays(*xs)
    return numbers.fma(a, b, c, SCALAR[type])


def _fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The product is exact in f64.  The sum, rounded there and then to f32, is what rounding once gives, unless it lies
    half-way between two f32, where what the first rounding left out decides: of those the lower 28 bits are zero.
    """
    exact = a.astype(np.float64) * b + c
    found = exact.astype(np.float32)
    doubtful = exact.view(np.int64) & np.int64((1 << 28) - 1) == 0
    if doubtful.any():
        x, y, z = (np.broadcast_to(given, found.shape)[doubtful] for given in (a, b, c))
        found[doubtful] = numbers.fma(x, y, z, F32)
    return found


def floating(op: str, type: str, mods: set[str]) -> Compute:
    mode = next((m for m in ROUNDING if m in mods), "rn")
    plain: Callable = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "fma": np.add}[op]

    def compute(*xs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            xs = begun(xs, mods)
            if type == "bf16":
                wide = [numbers.from_bf16_bits(x) for x in xs]
                out = numbers.fma(wide[0], wide[1], wide[2], BF16) if op == "fma" else numbers.round_bf16(plain(*wide))
                return numbers.bf16_bits(out)
            if mode != "rn" and type == "f32":
                high, low = _exact32(op, list(xs))
                nearest = high.astype(np.float32)
                nearest = numbers.fma(xs[0], xs[1], xs[2], F32) if op == "fma" else nearest
                return ended(directed(nearest, (high - nearest.astype(np.float64)) + low, mode), mods)
            if op == "fma":
                return ended(_fma32(*xs) if type == "f32" else _fma(xs, type), mods)
            return ended(plain(*xs), mods)

    return compute
