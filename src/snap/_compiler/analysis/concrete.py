"""The value of an integer expression, where the values of what it reads are known.

Input: a typed expression, and what tells the value of a variable, of a position, or of whatever else is no arithmetic.
Output: a number as the GPU computes it, wrapping where its type does; None where something that decides it is unknown
or undefined.  Non-goals: floats; memory; many threads at once (machine/).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import COMPARISONS, exact, wrap
from snap._compiler.ir.types import BOOL, Scalar

Number = int | bool


def value(e: ir.Expr, known: Callable[[ir.Expr], Number | None]) -> Number | None:
    if not isinstance(e.type, Scalar):
        return None
    match e:
        case ir.Const():
            return cast(Number, e.value) if e.type.is_integer or e.type == BOOL else None
        case ir.Select(cond, then, other):
            chosen = value(cond, known)
            return None if chosen is None else value(then if chosen else other, known)
        case ir.Logical(op, left, right):
            first = value(left, known)
            return None if first is None else value(right, known) if bool(first) is (op == "and") else bool(first)
        case ir.Cast(inner) | ir.Unary(_, inner):
            number = None if inner.type.is_float or e.type.is_float else value(inner, known)
            return None if number is None else _one(e, number)
        case ir.Binary(op, left, right) | ir.Compare(op, left, right) if not left.type.is_float:
            a, b = value(left, known), value(right, known)
            return None if a is None or b is None else _two(op, a, b, e.type)
        case ir.Math("min" | "max" | "abs" as op, args) if e.type.is_integer:
            numbers = [value(arg, known) for arg in args]
            compute = cast(Callable[..., int], {"min": min, "max": max, "abs": abs}[op])
            return None if None in numbers else wrap(compute(*numbers), e.type)
        case _:
            return known(e)


def _one(e: ir.Cast | ir.Unary, number: Number) -> Number:
    match e:
        case ir.Unary("not"):
            return not number
        case ir.Unary("~"):
            return wrap(~number, e.type)
        case ir.Unary():
            return wrap(-number, e.type)
        case _:
            return bool(number) if e.type == BOOL else wrap(int(number), e.type)


def _two(op: str, a: Number, b: Number, type: Scalar) -> Number | None:
    if op in COMPARISONS:
        return COMPARISONS[op](a, b)
    result = exact(op, a, b, type.bits)
    return result if result is None else bool(result) if type == BOOL else wrap(result, type)
