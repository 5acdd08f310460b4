"""Check operators on typed operands: conversions that C makes, arithmetic and comparisons, of scalars and of vectors.

Input: typed operands.  Output: typed expressions.  Invariant: nothing that drops a fraction or precision is converted
in silence; operands that have no common type are refused (SNAP018).  Non-goals: evaluating operands
(check/operations/expressions.py), folding (check/core/convert.py).
"""

from __future__ import annotations

from snap._compiler.analysis.syntactic import natural
from snap._compiler.check.core import convert
from snap._compiler.check.core.state import Checker
from snap._compiler.check.operations.quotients import follow_number, note_quotient
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import UINT, Scalar, Vector, scalar_of
from snap.diag.span import Span
from snap.diag.wording import called


def converted(c: Checker, value: ir.Expr, type: object, span: Span, what: str) -> ir.Expr:
    """`value` as `type`, where C would convert and nothing is lost in silence."""
    if not isinstance(type, Scalar) or not isinstance(value.type, Scalar):
        if value.type == type:
            return value
        raise c.type_error(f"{what} is `{type}`, and this is `{value.type}`", span, help=f"give it a `{type}`")
    if not convert.implicit(value, type):
        raise c.type_error(
            f"{what} is `{type}`, and this is `{value.type}`",
            span,
            "would lose precision in silence" if type.is_float else "would drop the fraction in silence",
            help=f"say so with a cast: `{called(cast_word(type), span)}`",
        )
    numbers = convert.numbers(value) if convert.is_weak(value) and type.is_integer else []
    for number in (number.value for number in numbers if not convert.fits(int(number.value), type)):
        raise c.type_error(
            f"{what} is `{type}`, which does not hold {number}",
            span,
            help=f"to wrap it on purpose, cast it: `{cast_word(type)}({number})`",
        )
    return convert.cast(value, type)


def cast_word(type: object) -> str:
    """A type as users write it."""
    return {"i32": "int", "f32": "float"}.get(str(type), str(type))


def no_common_type(c: Checker, a: ir.Expr, b: ir.Expr, span: Span) -> Exception:
    to = "float" if scalar_of(a.type).is_float and scalar_of(b.type).is_float else cast_word(b.type)
    help = f"cast one of them: `{called(to, a.span)}`"
    return c.type_error(f"`{a.type}` and `{b.type}` have no common type", span, help=help)


def arithmetic(c: Checker, op: str, a: ir.Expr, b: ir.Expr, span: Span, digit: bool = False) -> ir.Expr:
    if isinstance(a.type, Vector) or isinstance(b.type, Vector):
        a, b, vector = meeting(c, span, a, b)
        arithmetic(c, op, one_component(a), one_component(b), span)  # what is wrong with scalars is wrong with these
        return ir.Binary(_rounded(op, vector.elem.kind is UINT), a, b, vector, span=span)
    if op == "@":
        raise c.fail(
            "SNAP017",
            "`@` gives a privilege in a declaration, and is not an operator in Snap",
            span,
            help="write the loops, or call `snap.lib.gemm` before the launch",
        )
    if op == "**":
        help = f"write `{called('pow', a.span, b.span)}`, or multiply"
        raise c.fail("SNAP017", "`**` is not part of Snap", span, help=help)
    type = scalar_of(a.type)
    floating, asked = type.is_float or scalar_of(b.type).is_float, op
    if floating and op in ("<<", ">>", "&", "|", "^"):
        raise c.type_error(
            f"`{op}` takes integers",
            span,
            f"`{a.type}` {op} `{b.type}`",
            help="for the bits of a float: `intrinsic.bitcast(x, u32)`",
        )
    if floating and op == "%":
        raise c.type_error(
            "`%` takes integers", span, f"`{a.type}` % `{b.type}`", help=f"write `{called('fmod', a.span, b.span)}`"
        )
    if floating and op == "//":
        help = f"write `{called('floor', span).replace('//', '/')}`"
        raise c.type_error("`//` takes integers", span, f"`{a.type}` // `{b.type}`", help=help)
    met = None if op in ("<<", ">>") else convert.common_type(a, b)
    if met is None and op not in ("<<", ">>"):
        raise no_common_type(c, a, b, span)
    if op in ("/", "//", "%") and not floating and isinstance(b, ir.Const) and b.value == 0:
        raise c.type_error(
            "division by zero", span, help="where the divisor may be zero at run time, guard it with an `if`"
        )
    if op in ("<<", ">>") and isinstance(b, ir.Const) and not 0 <= b.value < max(32, type.bits):
        raise c.type_error(
            f"a shift by {b.value} is outside of `{convert.promoted(type)}`",
            span,
            help="shift by less than the width; a wider type is a cast: `i64(x) << 40`",
        )
    if met is not None and op in ("//", "%"):
        unsigned = met.kind is UINT
        op = _rounded(op, digit or unsigned or natural(a, c.text) and natural(b, c.text))
    made = convert.binary(op, a, b, span, met)
    if op == "/" and asked == "/" and not floating and not digit:
        note_quotient(c, made, a, b)
    elif c.quotients:
        follow_number(c, made, a, b)
    return made


# `//` and `%` are Python's: they round down.  Where no operand is negative that is what C's operators do.
def _rounded(op: str, natural: bool) -> str:
    return {"//": "/"}.get(op, op) if natural else {"%": "mod"}.get(op, op)


# Vectors of one type are computed with component by component; a scalar meets every component, and becomes what they
# are where nothing is lost.
def meeting(c: Checker, span: Span, *operands: ir.Expr):
    """Operands of which one is a vector, as they are computed with, and the vector's type."""
    types = list(dict.fromkeys(v.type for v in operands if isinstance(v.type, Vector)))
    if len(types) > 1:
        raise c.type_error(
            f"`{types[0]}` and `{types[1]}` have no common type",
            span,
            help=f"convert one of them: `{types[0]}(v)`"
            if types[0].lanes == types[1].lanes
            else "take components, `.x`",
        )
    (type,) = types
    fitted = (
        v if v.type == type else converted(c, v, type.elem, v.span, f"a scalar that meets a `{type}`") for v in operands
    )
    return *fitted, type


def one_component(v: ir.Expr) -> ir.Expr:
    return ir.Component(v, 0, v.type.elem, span=v.span) if isinstance(v.type, Vector) else v


def compared(c: Checker, op: str, a: ir.Expr, b: ir.Expr, span: Span) -> ir.Expr:
    vector = next((v.type for v in (a, b) if isinstance(v.type, Vector)), None)
    if vector is not None:
        raise c.type_error(
            f"a `{vector}` is not compared: it has {vector.lanes} answers",
            span,
            help=f"compare components, `a.x {op} b.x`, or take `min` or `max` of the vectors",
        )
    if convert.common_type(a, b) is None:
        raise no_common_type(c, a, b, span)
    return convert.compare(op, a, b, span)
