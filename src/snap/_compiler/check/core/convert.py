"""Convert scalars as C does, and fold constants with CUDA's arithmetic.

Input: typed operands.  Output: typed expressions with every conversion explicit.  Invariant: a `Const` holds a value of
its type (integers in range, f32 and narrower already rounded).  Non-goals: privileges.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import COMPARISONS, exact, fits, wrap
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I32, I64, INT, TRUTH, U64, Scalar, scalar_of
from snap.diag.span import Span
from snap.record import replace


def literal(value: int | float | bool, span: Span) -> ir.Const | None:
    """A literal or captured number; None when no type holds it."""
    if isinstance(value, bool):
        return ir.Const(value, BOOL, span=span)
    if isinstance(value, int):
        type = _narrowest(value)
        return None if type is None else ir.Const(value, type, weak=True, span=span)
    return ir.Const(float(value), F32, weak=True, span=span)


def _narrowest(value: int) -> Scalar | None:
    for type in (I32, I64, U64):
        if fits(value, type):
            return type
    return None


def is_integer(value: ir.Expr) -> bool:
    """Decide whether a value is one integer: no float, no bool, no vector."""
    return isinstance(value.type, Scalar) and value.type.is_integer


PRECISION = {
    F64: (53, -1074),
    F32: (24, -149),
    F16: (11, -24),
    BF16: (8, -133),
}  # bits that count, exponent of the smallest number above zero
LARGEST = {F64: sys.float_info.max, F32: 3.4028234663852886e38, F16: 65504.0, BF16: 3.3895313892515355e38}


def round_float(value: int | float, type: Scalar) -> float:
    """Round to nearest even in `type`, once, whatever it comes from."""
    if value == 0 or isinstance(value, float) and not math.isfinite(value):
        return float(value)
    bits, least = PRECISION[type]
    exact = Fraction(value)
    size = abs(exact.numerator).bit_length() - exact.denominator.bit_length()  # 2^size-1 < |value| < 2^size+1
    size += abs(exact) >= Fraction(2) ** size
    step = Fraction(2) ** max(size - bits, least)
    rounded = abs(round(exact / step) * step)
    return math.copysign(float(rounded) if rounded <= LARGEST[type] else math.inf, -1 if value < 0 else 1)


def constant(value: int | float | bool, type: Scalar, span: Span, weak: bool = False, source: Scalar = F32) -> ir.Const:
    """`value`, of type `source` if it is a float, converted to `type` as CUDA converts it."""
    if type.kind is TRUTH:
        return ir.Const(bool(value), type, weak, span=span)
    if type.is_float:
        if weak and isinstance(value, float):
            return ir.Const(value, type, weak, span=span)
        return ir.Const(round_float(value, F64 if weak else type), type, weak, span=span)
    if isinstance(value, float):
        value = _saturated(value, source, type)
    return ir.Const(wrap(int(value), type), type, weak, span=span)


def _saturated(value: float, source: Scalar, type: Scalar) -> int:
    """Toward zero, and to the nearest end of the range.  A NaN is 0; where 64 bits are involved it is the top bit
    alone, clamped to fewer bits.
    """
    low, high = (-(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1) if type.kind is INT else (0, (1 << type.bits) - 1)
    if math.isnan(value):
        top = low if type.kind is INT else 1 << (type.bits - 1) if type.bits >= 32 else high
        return top if 64 in (source.bits, type.bits) else 0
    return low if value <= low else high if value >= high else int(value)


def extreme(name: str, values: list[int | float]) -> int | float:
    """`min` or `max` of constants: a NaN gives way to a number, and -0.0 is below 0.0."""
    numbers = [v for v in values if v == v]
    if not numbers:
        return values[0]
    return (min if name == "min" else max)(numbers, key=lambda v: (v, math.copysign(1, v)))


def cast(value: ir.Expr, type: Scalar, span: Span | None = None) -> ir.Expr:
    weak = is_weak(value)
    if not weak and (value.type is type or value.type == type):  # mostly the very same
        return value
    if isinstance(value, ir.Const):
        return constant(value.value, type, span or value.span, source=value.type)
    return _taking(value, type) if weak else ir.Cast(value, type, span=span or value.span)


# ---- literals: a number takes the type of what it meets, and so does a choice between numbers


def is_weak(value: ir.Expr) -> bool:
    """A literal; or one of several that `if-else`, `min` and `max` choose from, whichever it is."""
    if type(value) is ir.Const:
        return value.weak
    if type(value) is ir.Select:
        return is_weak(value.then) and is_weak(value.other)
    return type(value) is ir.Math and value.op in ("min", "max") and all(map(is_weak, value.args))


def numbers(value: ir.Expr) -> list[ir.Const]:
    """The literals that a weak value is one of."""
    match value:
        case ir.Const():
            return [value]
        case ir.Select(_, then, other):
            return [*numbers(then), *numbers(other)]
        case ir.Math(args=args):
            return [number for arg in args for number in numbers(arg)]
        case _:
            raise TypeError(f"{value} is not weak")


def _taking(value: ir.Expr, type: Scalar) -> ir.Expr:
    """Give a choice between literals the type that it meets."""
    match value:
        case ir.Select(_, then, other):
            return replace(value, then=cast(then, type), other=cast(other, type), type=type)
        case ir.Math(args=args) if (
            type.is_float
            or type.is_integer
            and all(number.type.is_integer and fits(int(number.value), type) for number in numbers(value))
        ):
            return replace(value, args=tuple(cast(arg, type) for arg in args), type=type)
    own = scalar_of(value.type)  # which is the least changes where numbers wrap
    return ir.Cast(_taking(value, own), type, span=value.span)


def weakly(value: ir.Expr, type: Scalar) -> ir.Expr:
    """A weak value seen as one of `type`, and weak still."""
    again = lambda part: weakly(part, type)  # noqa: E731
    match value:
        case ir.Select(_, then, other):
            return replace(value, then=again(then), other=again(other), type=type)
        case ir.Math(args=args):
            return replace(value, args=tuple(map(again, args)), type=type)
        case ir.Const(number):
            return constant(number, type, value.span, True)
        case _:
            raise TypeError(f"{value} is not weak")


def _negated(op: str, value: ir.Expr, span: Span) -> ir.Expr:
    """Push `-` or `~` into a choice between literals: the choice between theirs."""
    match value:
        case ir.Select(cond, then, other):
            then, other = unary(op, then, span), unary(op, other, span)
            type = accepted(then, other)
            return ir.Select(cond, weakly(then, type), weakly(other, type), type, span=span)
        case ir.Math(name, args):
            args = tuple(unary(op, arg, span) for arg in args)
            type = accepted(*args)
            opposite = {"min": "max", "max": "min"}[name]
            return ir.Math(opposite, tuple(weakly(arg, type) for arg in args), type, value.fast, span=span)
        case _:
            raise TypeError(f"{value} is not weak")


# ---- C's conversions


def promoted(type: Scalar) -> Scalar:
    """C's integer promotion."""
    return I32 if type.kind is TRUTH or (type.is_integer and type.bits < 32) else type


def common_type(left: ir.Expr, right: ir.Expr) -> Scalar | None:
    """C's usual arithmetic conversions; a literal takes the other's type.  None: f16 with bf16, which have no common
    type.
    """
    a, b = scalar_of(left.type), scalar_of(right.type)
    weak = is_weak(left)
    if weak != is_weak(right):
        return _meet_literal(left, b) if weak else _meet_literal(right, a)
    if a.is_float and b.is_float:
        return None if a != b and a.bits == b.bits else a if a.bits >= b.bits else b
    if a.is_float or b.is_float:
        return a if a.is_float else b
    return _wider(promoted(a), promoted(b))


def accepted(left: ir.Expr, right: ir.Expr) -> Scalar:
    """The common type of operands of which the caller knows that they have one."""
    type = common_type(left, right)
    if type is None:
        raise TypeError(f"`{left.type}` and `{right.type}` have no common type")
    return type


def _wider(a: Scalar, b: Scalar) -> Scalar:
    """C's choice between two integers of at least 32 bits."""
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.kind is INT else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed


def _meet_literal(value: ir.Expr, other: Scalar) -> Scalar:
    """The type of what it meets, if that holds it; else as in C, with the number in the narrowest of int, i64 and u64:
    `u & -16` is u32.
    """
    if other.is_float:
        return other
    if scalar_of(value.type).is_float:
        return F32
    type = other = promoted(other)
    for number in numbers(value):
        if not fits(int(number.value), other):
            type = _wider(type, _narrowest(int(number.value)) or type)
    return type


def implicit(value: ir.Expr, type: Scalar) -> bool:
    """Decide whether `value` converts to `type` without a cast: nothing drops a fraction or precision in silence."""
    have = scalar_of(value.type)
    if have == type or not have.is_float:
        return True
    if not type.is_float:
        return False
    return is_weak(value) or have.bits < type.bits


def fold_binary(op: str, left: ir.Const, right: ir.Const, type: Scalar, span: Span) -> ir.Const | None:
    """Both operands already have `type` (shifts: the left one).  None where the result is undefined."""
    weak = left.weak and right.weak
    a, b = left.value, right.value
    try:
        if type.is_float:
            number = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[op]()
            return ir.Const(number if weak else round_float(number, type), type, weak, span=span)
    except (ZeroDivisionError, OverflowError, KeyError):
        return None
    result = exact(op, int(a), int(b), type.bits)
    if result is None:
        return None
    if weak and not fits(result, type):
        for wider in (I64, U64):
            if fits(result, wider):
                return ir.Const(result, wider, weak, span=span)
    return ir.Const(wrap(result, type), type, weak, span=span)


def binary(op: str, left: ir.Expr, right: ir.Expr, span: Span, met: Scalar | None = None) -> ir.Expr:
    """Arithmetic on operands whose types the caller has accepted.  met: their common type, if the caller knows it."""
    weak = isinstance(left, ir.Const) and isinstance(right, ir.Const) and left.weak and right.weak
    if op in ("<<", ">>"):
        type, of_right = scalar_of(left.type), scalar_of(right.type)
        if not weak:
            type, of_right = promoted(type), promoted(of_right)
    else:
        type = of_right = met or accepted(left, right)
    seen_as = weakly if weak else cast
    left, right = seen_as(left, type), seen_as(right, of_right)
    if isinstance(left, ir.Const) and isinstance(right, ir.Const):
        folded = fold_binary(op, left, right, type, span)
        if folded is not None:
            return folded
    return ir.Binary(op, left, right, type, span=span)


def exactly(value: ir.Expr, by: int, span: Span) -> ir.Expr:
    """An integer divided by what must divide it (see `ir.Binary`)."""
    type = scalar_of(value.type)
    if isinstance(value, ir.Const) and value.value % by == 0:
        return ir.Const(value.value // by, type, span=span)
    return ir.Binary("/", value, ir.Const(by, type, span=span), type, exact=True, span=span)


def compare(op: str, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
    type = BOOL if left.type == right.type == BOOL else accepted(left, right)
    left, right = cast(left, type), cast(right, type)
    if isinstance(left, ir.Const) and isinstance(right, ir.Const):
        return ir.Const(COMPARISONS[op](left.value, right.value), BOOL, span=span)
    return ir.Compare(op, left, right, BOOL, span=span)


_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def _denied(value: ir.Expr, span: Span) -> ir.Expr:
    """`not value`; of integers that are compared the opposite, so that `if i >= n: return` becomes `if (i < n)`."""
    match value:
        case ir.Const():
            return ir.Const(not value.value, BOOL, span=span)
        case ir.Compare(op, left, right) if is_integer(left):
            return ir.Compare(_OPPOSITE[op], left, right, BOOL, span=value.span)
        case ir.Logical(op, left, right):
            other = "or" if op == "and" else "and"
            return ir.Logical(other, _denied(left, span), _denied(right, span), BOOL, span=value.span)
        case _:
            return ir.Unary("not", value, BOOL, span=span)


def unary(op: str, value: ir.Expr, span: Span) -> ir.Expr:
    if op == "not":
        return _denied(cast(value, BOOL), span)
    if isinstance(value, ir.Const):
        type = value.type if value.weak else promoted(value.type)
        result = -value.value if op == "-" else ~int(value.value)
        if type.is_float:
            return ir.Const(result, type, value.weak, span=span)
        if value.weak and not fits(int(result), type):
            return literal(int(result), span) or ir.Const(wrap(int(result), type), type, True, span=span)
        shrunk = literal(int(result), span) if value.weak else None  # -2147483648 is an i32 although 2147483648 is not
        return shrunk or ir.Const(wrap(int(result), type), type, value.weak, span=span)
    if is_weak(value):
        return _negated(op, value, span)
    type = promoted(scalar_of(value.type))
    return ir.Unary(op, cast(value, type), type, span=span)


def same(value: ir.Const, number: int | float) -> bool:
    """Decide whether a constant is that number, bit for bit: -0.0 is not 0."""
    return value == constant(number, value.type, value.span)


def settled(e: ir.Expr) -> ir.Expr:
    """A number whose type was still open gets the one it has; anything else stays as it is."""
    return cast(e, scalar_of(e.type)) if is_weak(e) else e
