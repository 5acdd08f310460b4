"""Define integers and what their operations compute, on the GPU as in the language: once, for every stage.

Input: Python's integers, and a type.  Output: Python's integers.  Non-goals: floats; whole expressions
(analysis/concrete.py); arrays of numbers, as the machine computes with (machine/lanes/numbers.py).
"""

from __future__ import annotations

import operator

from snap._compiler.ir.types import INT, TRUTH, UINT, Scalar
from snap.record import kept

Range = tuple[int, int]  # from .. to, both included
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_PLAIN = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def _held_by(type: Scalar) -> Range:
    """The numbers that an integer type holds."""
    if type.kind is TRUTH:
        return 0, 1
    return (0, (1 << type.bits) - 1) if type.kind is UINT else (-(1 << type.bits - 1), (1 << type.bits - 1) - 1)


held_by = kept("_held_by", _held_by)


def fits(value: int, type: Scalar) -> bool:
    low, high = held_by(type)
    return low <= value <= high


def wrap(value: int, type: Scalar) -> int:
    """The number of that type that is the value up to a multiple of 2 ** bits."""
    value &= (1 << type.bits) - 1
    return value - (1 << type.bits) if type.kind is INT and value >> (type.bits - 1) else value


def divide(left: int, right: int) -> int:
    """Rounded toward zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def remainder(left: int, right: int) -> int:
    """It has the sign of the left side."""
    return left - right * divide(left, right)


# `/` and `%` of the IR are C's; `//` and `mod`, which are Python's `//` and `%`, round down.
DIVISIONS = {"/": divide, "%": remainder, "//": operator.floordiv, "mod": operator.mod}


def exact(op: str, a: int, b: int, bits: int) -> int | None:
    """The result of arithmetic before it wraps; None where it is undefined."""
    if op in _PLAIN:
        return _PLAIN[op](a, b)
    if op in DIVISIONS and b:
        return DIVISIONS[op](a, b)
    if op in ("<<", ">>") and 0 <= b < bits:
        return a << b if op == "<<" else a >> b
    return None
