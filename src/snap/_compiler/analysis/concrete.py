"""Compute the value of an integer expression, where the values of what it reads are known.

Input: a typed expression, and a function that tells the value of a variable, of a position, or of whatever else is no
arithmetic.  Output: a number as the GPU computes it; None where something that decides it is unknown or unspecified.
Invariant: signed arithmetic wraps, as it does in practice.  Non-goals: floats; memory; many threads at once (machine/).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.analysis.evaluate import ALL, IntegerDomain
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import COMPARISONS, exact, wrap
from snap._compiler.ir.types import Scalar

Number = int | bool
ReadValue = Callable[[ir.Expr], Number | None]


def value(e: ir.Expr, told: ReadValue) -> Number | None:
    return Concrete(told).of(e)


class Concrete(IntegerDomain[Any]):
    """Compute with numbers; None where one is not known."""

    rules = ALL
    partial = True

    def __init__(self, told: ReadValue):
        self.told = told

    def unknown(self, e: ir.Expr, *parts: Number | None) -> Number | None:
        return None if parts else self.told(e)

    def number(self, n: int) -> int:
        return n

    def truth(self, value: bool) -> bool:
        return value

    def known(self, x: Number | None) -> bool:
        return x is not None

    def constant(self, x: int) -> int:
        return x

    def natural(self, x: int) -> bool:
        return x >= 0

    def add(self, a: int, b: int, scale: int = 1) -> int:
        return a + scale * b

    def times(self, x: int, y: int) -> int:
        return x * y

    def floor(self, x: int, n: int) -> int:
        return x // n

    def modulo(self, x: int, n: int) -> int:
        return x % n

    def wrapped(self, x: int, type: Scalar) -> int:
        return wrap(x, type)

    def signed(self, x: int, type: Scalar, e: ir.Expr) -> int:
        return wrap(x, type)

    def bits(self, e: ir.Expr, op: str, x: int, y: int, type: Scalar) -> int | None:
        found = exact(op, x, y, type.bits)
        return None if found is None else wrap(found, type)

    divided = bits

    def compare(self, e: ir.Expr, op: str, x: int, y: int) -> bool:
        return COMPARISONS[op](x, y)

    def negation(self, e: ir.Expr, x: bool | None) -> bool | None:
        return None if x is None else not x

    def logical(self, e: ir.Logical, x: bool | None) -> Number | None:
        return x if x is None or bool(x) is not (e.op == "and") else self.of(e.right)

    def chosen(self, e: ir.Select, cond: bool | None) -> Number | None:
        return None if cond is None else self.of(e.then if cond else e.other)

    def function(self, e: ir.Math, args: list[int]) -> Number | None:
        return _FUNCTIONS[e.op](*args) if e.op in _FUNCTIONS else self.told(e)


_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "abs": abs}
