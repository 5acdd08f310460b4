"""The pure functions of `snap._compiler.ir.operations.MATH`, in the precision of their type.  The approximate forms
equal the precise ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from snap._compiler.ir.types import BF16, F64, Scalar
from snap.machine.lanes import numbers


def _scalar_function(function: Callable[[float], float]) -> Callable:
    """A function of Python's `math`, which NumPy lacks, lane by lane."""
    ufunc = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(ufunc(x.astype(np.float64)), np.float64).astype(x.dtype)[()]


def _round_away(x):
    whole = np.trunc(x)
    return np.where(
        np.abs(x - whole) >= x.dtype.type(0.5), whole + np.copysign(x.dtype.type(1), x), np.copysign(whole, x)
    )[()]


def _least(a, b):
    """A NaN gives way to a number; -0.0 is below 0.0, as PTX has it."""
    return np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))[()]


def _greatest(a, b):
    return np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))[()]


_FLOAT: dict[str, Callable] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
    "round": _round_away,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "hypot": np.hypot,
    "pow": np.power,
    "div": np.divide,
    "abs": np.abs,
    "min": _least,
    "max": _greatest,
    "rcp": lambda x: x.dtype.type(1) / x,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "erf": _scalar_function(math.erf),
    "erfc": _scalar_function(math.erfc),
    "to_e4m3": lambda x: numbers.to_byte(x, "e4m3"),
    "to_e5m2": lambda x: numbers.to_byte(x, "e5m2"),
}
_PREDICATES: dict[str, Callable] = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
_INTEGER: dict[str, Callable] = {
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "ffs": numbers.find_first_set,
    "popc": numbers.population_count,
    "clz": numbers.leading_zeros,
    "brev": numbers.reverse_bits,
    "mulhi": numbers.multiply_high,
    "from_e4m3": lambda x: numbers.BYTES["e4m3"][x],
    "from_e5m2": lambda x: numbers.BYTES["e5m2"][x],
    "dp4a": lambda a, b, c: numbers.packed_dot(a, b, c, 8, 0),
    "dp2a_lo": lambda a, b, c: numbers.packed_dot(a, b, c, 16, 0),
    "dp2a_hi": lambda a, b, c: numbers.packed_dot(a, b, c, 16, 2),
}


def lookup(op: str, type: Scalar) -> Callable:
    """The function for operands of `type`."""
    if not type.is_float:
        return _INTEGER[op]
    if op in _PREDICATES:
        return _PREDICATES[op]
    if op == "fma":
        return lambda a, b, c: numbers.fma(a, b, c, type)
    function = _FLOAT[op]
    if type == BF16:
        return lambda *args: numbers.round_bf16(function(*args))
    if op == "rsqrt" and type != F64:
        # One rounding instead of two: the quotient in f64 is far more exact than the result can show.
        return lambda x: (1.0 / np.sqrt(x.astype(np.float64))).astype(x.dtype)
    return function
