"""Substitute in expressions.

Input and output: typed expressions.  Invariant: an expression in which nothing changes is returned as the same object.
"""

from __future__ import annotations

from collections.abc import Callable

from snap._compiler.check.core import convert
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.rewrite import changed, with_expressions
from snap._compiler.ir.types import Scalar
from snap._compiler.ir.walk import variables
from snap.diag.span import Span


def substitute(e: ir.Expr, replace: Callable[[ir.Var], ir.Expr | None]) -> ir.Expr:
    """Replace reads of variables; arithmetic whose operands became constants is folded again."""
    if isinstance(e, ir.Read):
        return replace(e.var) or e
    made = with_expressions(e, lambda part: substitute(part, replace))
    return e if made is e else _typed_anew(made)


def _typed_anew(e: ir.Expr) -> ir.Expr:
    """A 64-bit index widens what it enters."""
    type = e.type
    if not isinstance(type, Scalar):
        return e
    match e:
        case ir.Binary(_, left, ir.Const(n)) if e.exact:
            return convert.exactly(left, int(n), e.span)
        case ir.Binary(op, left, right):
            return convert.binary(op, left, right, e.span)
        case ir.Unary(op, value):
            return convert.unary(op, value, e.span)
        case ir.Cast(value):
            return convert.cast(value, type, e.span)
        case ir.Compare(op, left, right):
            return convert.compare(op, left, right, e.span)
        case _:
            return e


def placed(e: ir.Expr, span: Span) -> ir.Expr:
    """The same expression as if it stood there."""
    return changed(with_expressions(e, lambda part: placed(part, span)), span=span)


__all__ = ["placed", "substitute", "variables"]
