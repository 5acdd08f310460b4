"""Warn of a quotient of integers, cut off, that becomes a float (SNAP030).

Input: the arithmetic of a function, as it is checked, and what was made of it.  Output: warnings.  Invariant: a
quotient that is certainly exact is none of them, nor is one that goes into a variable whose type is written, nor one
of a number that is taken apart, `t / n` beside `t % n`.
Non-goals: what is computed.

In Python `x[i] * (1 / n)` is a fraction of x[i]; in Snap, as in C, `1 / n` is an integer, mostly 0, and nothing tells
the two apart where it meets a float.  Who means the integer writes `//`.
"""

from __future__ import annotations

from collections.abc import Iterable

from snap._compiler.analysis.syntactic import divisor
from snap._compiler.check.core.state import Checker
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Element, Scalar
from snap._compiler.ir.walk import expressions, statements
from snap.diag.error import Label
from snap.diag.source import written
from snap.diag.span import Span


def note_quotient(c: Checker, made: ir.Expr, a: ir.Expr, b: ir.Expr) -> None:
    """`made` is a / b, of integers: remember where it is, if it may drop a fraction."""
    if isinstance(b, ir.Const):
        exact = a.value % b.value == 0 if isinstance(a, ir.Const) else divisor(a, c.text) % int(b.value) == 0
        if exact or not b.value:
            return
    c.quotients[made.span] = made.span


def follow_number(c: Checker, made: ir.Expr, *of: ir.Expr) -> None:
    """A number that was computed of others while it was checked: nothing else tells that one of them was a quotient."""
    if isinstance(made, ir.Const):
        for part in of:
            found = c.quotients.get(part.span) if isinstance(part, ir.Const) else None
            if found is not None:
                c.quotients.setdefault(made.span, found)


def warn_of_quotients(c: Checker, made: ir.Body) -> None:
    if not c.quotients:
        return
    found: dict[Span, ir.Expr] = {}
    for s in statements(made):
        for e in expressions(s):
            if (type(e) is ir.Const or type(e) is ir.Cast) and _is_float(e.type):
                at = c.quotients.get(e.span) if isinstance(e, ir.Const) else _cut_off(c, (e.value,))
                if at is not None:
                    found.setdefault(at, e)
    taken_apart = _taken_apart(made) if found else set()
    for at, e in found.items():
        if at not in taken_apart:
            _warn(c, at, e)


def _taken_apart(made: ir.Body) -> set[Span]:
    """Quotients beside which the same two numbers have a remainder: `row, column = t / n, t % n` means integers."""
    parts = [e for s in statements(made) for e in expressions(s) if isinstance(e, ir.Binary)]
    rests = {(e.left, e.right) for e in parts if e.op in ("%", "mod")}
    return {e.span for e in parts if e.op == "/" and (e.left, e.right) in rests}


def _is_float(t: Element) -> bool:
    return isinstance(t, Scalar) and t.is_float


def _cut_off(c: Checker, parts: Iterable[ir.Expr]) -> Span | None:
    """Find where one of these integers has dropped a fraction: in sums, products and choices, and in variables that say
    no type.
    """
    for e in parts:
        found = None
        if isinstance(e.type, Scalar) and e.type.is_integer:
            found = c.quotients.get(e.span)
            match e:
                case ir.Binary("+" | "-" | "*", left, right):
                    found = _cut_off(c, (left, right))
                case ir.Unary("-", value) | ir.Cast(value):
                    found = _cut_off(c, (value,))
                case ir.Select(_, then, other):
                    found = _cut_off(c, (then, other))
                case ir.Math("min" | "max" | "abs", args):
                    found = _cut_off(c, args)
                case ir.Read(var):
                    found = _cut_off(c, c.declared.get(var.uid, ())) if var.uid in c.untyped else None
        if found is not None:
            return found
    return None


def _warn(c: Checker, at: Span, becomes: ir.Expr) -> None:
    text = written(at)
    left, _, right = text.partition("/") if text.count("/") == 1 else ("a", "", "b")
    left, right = left.strip(" ("), right.strip(" )")
    plain = left.replace("_", "").isalnum() and right.replace("_", "").isalnum()
    left, right = (left, right) if plain else ("a", "b")
    fraction = f"`{left}.0 / {right}`" if left.isdigit() else f"`float({left}) / {right}`"
    elsewhere = becomes.span != at and becomes.span.line != at.line
    c.warn(
        "SNAP030",
        f"a quotient of integers drops its fraction, and becomes {'a' if str(becomes.type)[0] != 'f' else 'an'}"
        f" `{becomes.type}`",
        at,
        "an integer, cut off toward zero",
        (Label(becomes.span, f"becomes `{becomes.type}` here"),) if elsewhere else (),
        help=f"for the fraction, divide floats: {fraction}; where the whole number is meant, write `{left} // {right}`",
    )
