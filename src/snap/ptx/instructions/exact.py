"""Floats computed with whole numbers: f64 in directions that NumPy does not round in, and what roundings leave out.

Input: arrays of f64.  Output: f64, the exact result rounded once.  Python's integers do the work, one element at a
time, where f64 arithmetic cannot: these are few instructions of few programs.
"""

from __future__ import annotations

from math import frexp, inf, isinf, isnan, isqrt, ldexp, nan

import numpy as np

from snap._compiler.ir.types import F64
from snap.machine.lanes.numbers import fma, two_product

DIGITS, LEAST = 53, -1074


def f64(op: str, xs: tuple[np.ndarray, ...], mode: str) -> np.ndarray:
    """add, sub, mul, fma, div, sqrt."""
    arrays = np.broadcast_arrays(*xs)
    if op == "fma" and mode == "rn":
        return _fma(*arrays)
    flat = zip(*(x.reshape(-1).tolist() for x in arrays))
    return np.array([_one(op, values, mode) for values in flat], np.float64).reshape(arrays[0].shape)


def _fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Rounded to nearest: where nothing leaves the range, sums of two numbers do it (numbers.fma)."""
    found = np.array(fma(a, b, c, F64))
    product = np.abs(a * b)
    plain = (product == 0) | (product > 2.0**-900) & (product < 2.0**900) & (np.abs(a) < 2.0**900)
    plain &= (np.abs(b) < 2.0**900) & ((np.abs(c) < 2.0**900) & (np.abs(c) > 2.0**-900) | (c == 0))
    plain &= (np.abs(found) > 2.0**-900) | (found == 0) & (product == 0)
    finite = np.isfinite(a) & np.isfinite(b)
    found = np.where(finite & np.isinf(c), c, found)  # no product of numbers is infinite
    hard = ~plain & finite & np.isfinite(c)
    if hard.any():
        found[hard] = [_one("fma", v, "rn") for v in zip(a[hard].tolist(), b[hard].tolist(), c[hard].tolist())]
    return found


def _parts(x: float) -> tuple[int, int]:
    """m * 2**e, exactly."""
    m, e = frexp(x)
    return int(ldexp(m, DIGITS)), e - DIGITS


def _one(op: str, values: tuple[float, ...], mode: str) -> float:
    if any(isnan(v) or isinf(v) for v in values):
        return _special(op, values)
    a, ea = _parts(values[0])
    if op == "sqrt":
        if a <= 0:
            return values[0] if a == 0 else nan
        shift = 2 * DIGITS + 8 + (ea & 1)
        whole = a << shift
        root = isqrt(whole)
        return rounded(2 * root + (root * root != whole), (ea - shift) // 2 - 1, mode)
    b, eb = _parts(values[1])
    if op == "div":
        if b == 0:
            return nan if a == 0 else _zero_or(values, inf)
        if a == 0:
            return _zero_or(values, 0.0)
        shift = 2 * DIGITS + 8
        quotient, rest = divmod(abs(a) << shift, abs(b))
        found = rounded(2 * quotient + (rest != 0), ea - eb - shift - 1, mode, (a < 0) != (b < 0))
        return found
    if op in ("mul", "fma"):
        a, ea = a * b, ea + eb
        if op == "mul":
            return rounded(abs(a), ea, mode, a < 0) if a else _zero_or(values, 0.0)
        b, eb = _parts(values[2])
    if op == "sub":
        b = -b
    e = min(ea, eb)
    total = (a << ea - e) + (b << eb - e)
    if total:
        return rounded(abs(total), e, mode, total < 0)
    return _no_sum(op, values, mode)


def _no_sum(op: str, values: tuple[float, ...], mode: str) -> float:
    """A sum that is zero: with the sign of both, else +0, but -0 where it is rounded down."""
    first, second = values[0], values[1]
    if op == "fma":
        first, second = _zero_or(values[:2], 1.0), values[2]
    signs = {_minus(first), _minus(-second if op == "sub" else second)}
    if len(signs) == 1:
        return -0.0 if signs == {True} else 0.0
    return -0.0 if mode == "rm" else 0.0


def _minus(x: float) -> bool:
    return str(x)[0] == "-"


def _zero_or(values: tuple[float, ...], size: float) -> float:
    return -size if _minus(values[0]) != _minus(values[1]) else size


def _special(op: str, values: tuple[float, ...]) -> float:
    """With infinities and NaN, no direction matters."""
    with np.errstate(all="ignore"):
        xs = [np.float64(v) for v in values]
        match op:
            case "add":
                return float(xs[0] + xs[1])
            case "sub":
                return float(xs[0] - xs[1])
            case "mul":
                return float(xs[0] * xs[1])
            case "div":
                return float(xs[0] / xs[1])
            case "sqrt":
                return float(np.sqrt(xs[0]))
        if isinf(values[2]) and not any(isnan(v) or isinf(v) for v in values[:2]):
            return values[2]  # no product of numbers is infinite
        return float(xs[0] * xs[1] + xs[2])


def rounded(m: int, e: int, mode: str, negative: bool = False) -> float:
    """m * 2**e, m positive, as f64."""
    drop = max(m.bit_length() - DIGITS, LEAST - e, 0)
    low, rest = m >> drop, m & ((1 << drop) - 1)
    half = 1 << drop - 1 if drop else 0
    match mode:
        case "rn":
            up = rest > half or rest == half and half and low & 1
        case "rz":
            up = False
        case _:
            up = rest > 0 and negative == (mode == "rm")
    low += bool(up)
    if low.bit_length() + e + drop > 1024:
        outward = mode == "rn" or mode == ("rm" if negative else "rp")
        found = inf if outward else ldexp((1 << DIGITS) - 1, 1024 - DIGITS)
    else:
        found = ldexp(low, e + drop)
    return -found if negative else found


# ---- what a rounding left out, of f32 and narrower ------------------------------------------------------------------


def _product_left(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x - a * b with the right sign, for x near it: the product as a sum of two numbers, none of which leaves f64."""
    p, e = two_product(a, b)
    return (x - p) - e


def quotient_left(a: np.ndarray, q: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sign of a / b - q."""
    return _product_left(a, q, b) * np.sign(b)


def root_left(a: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The sign of sqrt(a) - q."""
    return _product_left(a, q, q)
