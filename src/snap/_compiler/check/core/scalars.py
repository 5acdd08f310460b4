"""Evaluate expressions as scalars, numbers and conditions, and say for whom they are evaluated.

Input: trees and a `Want`.  Output: typed, pure expressions of the kind that is asked for, or an error.  Invariant:
operands are evaluated from left to right.  Non-goals: the rules of each expression (check/operations/expressions.py).
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.explain import group_words
from snap._compiler.check.core.operands import in_order
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BOOL, Scalar, Vector


def scalar(c: Checker, e: tree.Expr, want: Want) -> ir.Expr:
    return scalar_value(c, expression(c, e, want), e)


def scalar_value(c: Checker, value: ir.Expr, e: tree.Expr) -> ir.Expr:
    if not isinstance(value.type, Scalar):
        raise c.type_error(
            f"a scalar is wanted here, and this is a `{value.type}`",
            e.span,
            help="take its components, `.x`" if isinstance(value.type, Vector) else "",
        )
    return value


def scalars(c: Checker, want: Want, *items: tree.Expr) -> list[ir.Expr]:
    """Scalars that are evaluated from left to right."""
    return in_order(c, want.privilege, lambda item: scalar(c, item, want), items)


def numbers(c: Checker, want: Want, *items: tree.Expr) -> list[ir.Expr]:
    """Scalars or vectors that are evaluated from left to right."""
    return in_order(c, want.privilege, lambda item: number(c, item, want), items)


def number(c: Checker, e: tree.Expr, want: Want) -> ir.Expr:
    value = expression(c, e, want)
    return value if isinstance(value.type, Vector) else scalar_value(c, value, e)


def condition(c: Checker, e: tree.Expr, want: Want) -> ir.Expr:
    return convert.cast(scalar(c, e, want), BOOL)


def deciding(c: Checker) -> Want:
    """Want a value that decides control flow: it is evaluated for the code's own privilege."""
    return Want(c.privilege, f"decides control flow for {group_words(c.privilege)}", control=True, implied=True)


def choosing(c: Checker, want: Want) -> Want:
    """Want a value that chooses between two values by control flow: it is evaluated for the code, and for whom the
    value is, which may be more than the code.
    """
    p = c.privilege.joined(want.privilege)
    return (
        deciding(c)
        if p == c.privilege
        else Want(p, f"chooses a value that is one for `{want.privilege}`", want.head, want.code)
    )
