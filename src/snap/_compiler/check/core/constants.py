"""Evaluate what must be known when a function is compiled: sizes, counts, options.

Input: the tree of an expression.  Output: a constant, or an error that says what keeps the expression from being one.
Invariant: what is no constant yet may become one: a variable of a loop over constants, where its iterations are written
out (check/core/known.py).  Non-goals: what the constant is for.
"""

from __future__ import annotations

from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.known import as_constant
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import THREAD1
from snap._compiler.ir.walk import variables, walk
from snap.diag.error import Label
from snap.diag.source import written


def constant_value(c: Checker, e: tree.Expr, what: str, help: str = "") -> ir.Const:
    """A compile-time constant."""

    value = expression(c, e, Want(THREAD1, f"{what} must be a compile-time constant"))
    known = value if isinstance(value, ir.Const) else as_constant(c, value, write_out=True)
    if known is None:
        asked = next((part.target for part in walk(value) if isinstance(part, ir.UnitCount)), None)
        if asked is not None and not c.definition.kernel and c.place[asked.level].count is None:
            level = asked.level.word
            raise c.type_error(
                f"{what} must be a compile-time constant, and callers decide how many {level}s there are",
                e.span,
                f"`@{c.definition.requires.word}` does not name the level",
                help=f"name the least there is, `{level}[1]` or more: then the count is a constant for each call",
            )
        labels, way = _not_constant(c, value)
        raise c.type_error(
            f"{what} must be a compile-time constant",
            e.span,
            "known only at run time",
            labels,
            help=f"{way or 'use a literal, a captured Python number, or a `constexpr` name'}{help}",
        )
    return known


def _not_constant(c: Checker, value: ir.Expr) -> tuple[tuple[Label, ...], str]:
    """Point to a variable that keeps a value from being a constant, and say how it can be one."""
    for var in variables(value):
        loop = next((one for one in c.constructs if one.var == var), None)
        if loop is not None:
            text = written(loop.span)
            if not all(isinstance(bound, ir.Const) for bound in loop.decides):
                what = "the bounds of its loop are not constants"
                way = "give the loop constant bounds, as in `unroll(range(4))`: its variable is a constant then"
            elif text.startswith("unroll"):
                what, way = "its loop is unrolled in part", "leave the factor out: all iterations are written out then"
            else:
                what, way = "the variable of a loop", f"write `unroll({text})`: its variable is a constant then"
            return (Label(var.span, what),), way
        if var.name in c.assigned:
            label = Label(var.span, f"`{var.name}` is given a value more than once")
            return (label,), "use a name that is given its value once, and a constant one: `n: constexpr(int) = ...`"
    return (), ""


def constant_int(c: Checker, e: tree.Expr, what: str, help: str = "") -> int:
    value = constant_value(c, e, what, help)
    if not value.type.is_integer:
        raise c.type_error(
            f"{what} must be an integer", e.span, help="write a whole number; `//` divides without a fraction"
        )
    return int(value.value)


def size_of_dimension(c: Checker, e: tree.Expr, help: str = "") -> int:
    n = constant_int(c, e, "the size of an array", help)
    if n < 1:
        raise c.type_error(f"an array cannot have a dimension of {n}", e.span, help="write a positive constant")
    return n
