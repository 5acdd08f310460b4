"""Find out what the text tells about values: which keep their first one, which are constants, and who agrees on them.

Input: typed expressions and the state.  Output: constants; the first part of an expression that a group may disagree
on.  Invariant: it errs on the safe side: a part that might differ.  Non-goals: what values are (analysis/syntactic.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.analysis import concrete
from snap._compiler.analysis.uniform import differs
from snap._compiler.check.core import convert
from snap._compiler.check.core.rewrite import substitute
from snap._compiler.check.core.state import Checker, Construct, ConstructKind, WriteOut
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, CLUSTER1, THREAD1, Privilege, Scalar
from snap._compiler.ir.walk import walk
from snap.diag.span import Span


def note_value(c: Checker, var: ir.Var, value: ir.Expr | None, read_only: bool = False) -> None:
    """Remember what is known of a new variable, if it keeps its first value."""
    if value is None or var.name in c.assigned and not read_only:
        return
    if not convert.is_integer(value):
        c.firsts[var.uid] = value
        return
    if isinstance(value, ir.UnitId) and value.target == BLOCK1 and value.place.privilege == CLUSTER1:
        c.own_ranks.add(var.uid)
    c.declared[var.uid] = (value,)


# A local that is given a value once, a constant one, is that constant, and so is what is computed of it.
_ARITHMETIC = (ir.Const, ir.Unary, ir.Binary, ir.Compare, ir.Logical, ir.Select, ir.Math, ir.Cast)


def as_constant(c: Checker, e: ir.Expr, write_out: bool = False) -> ir.Const | None:
    """Return the constant that an expression is. write_out: a loop variable is one, where its loop is written out."""
    if isinstance(e, ir.Const):
        return e
    if not isinstance(e.type, Scalar):
        return None
    open = list(_open_parts(c, e))
    loops = [_over_constants(c, part) for part in open] if write_out else [None]
    if open and None not in loops:
        raise WriteOut(frozenset(loop for loop in loops if loop is not None))
    if open:
        return None

    def kept(var: ir.Var) -> ir.Const | None:
        first = _first(c, var)
        return None if first is None else as_constant(c, first)

    if e.type.is_float:
        made = substitute(e, kept)
        return made if isinstance(made, ir.Const) else None

    def told(part: ir.Expr) -> int | bool | None:
        known = kept(part.var) if isinstance(part, ir.Read) else None
        return None if known is None else int(known.value)

    value = concrete.value(e, told)
    return None if value is None else convert.constant(value, e.type, e.span)


def _first(c: Checker, var: ir.Var) -> ir.Expr | None:
    """The value that a variable keeps."""
    given = c.declared.get(var.uid)
    return given[0] if given is not None and len(given) == 1 else c.firsts.get(var.uid)


def _open_parts(c: Checker, e: ir.Expr) -> Iterator[ir.Expr]:
    """List what keeps an expression from being a constant."""
    for part in walk(e):
        if isinstance(part, ir.Read):
            first = _first(c, part.var)
            yield from (part,) if first is None else _open_parts(c, first)
        elif not isinstance(part, _ARITHMETIC):
            yield part


def _over_constants(c: Checker, part: ir.Expr) -> Span | None:
    """The loop that can be written out, so that this variable of it is a constant."""
    if isinstance(part, ir.Read):
        for construct in c.constructs:
            if construct.var == part.var and construct.over_constants:
                return part.var.span
    return None


def decided_below(c: Checker, p: Privilege, constructs: list[Construct]) -> tuple[Construct, ir.Expr | None] | None:
    """The first loop or `if` of the constructs that units of p may go through differently, and what decides it (None: a
    `break` or `continue`).
    """
    for construct in constructs:
        if construct.kind not in (ConstructKind.IF, ConstructKind.LOOP):
            continue
        found = differs(p, c.ranges, *construct.decides)
        if found is not None:
            return construct, found
        if construct.left_early and not construct.place.privilege.at_least(p):
            return construct, None
    return None


UNROLL_LIMIT = 512  # constant loops over registers beyond this are left to the compiler


def unknown_when_compiled(c: Checker, e: ir.Expr) -> ir.Var | None:
    """A variable that keeps an expression from being a constant where all loops are unrolled that can be."""
    for part in walk(e):
        match part:
            case ir.Read(var) if var.uid in c.declared:
                found = next(filter(None, (unknown_when_compiled(c, value) for value in c.declared[var.uid])), None)
                if found is not None:
                    return found
            case ir.Read(var):
                if not any(construct.var == var and construct.unrolled for construct in c.constructs):
                    return var
            case ir.Elem(ir.ArrayRef(var)):
                return var
            case ir.Load(access):
                return ir.Var(0, access.handle.name, access.view.elem, access.handle.privilege, span=access.span)
            case ir.UnitId() | ir.UnitCount() | ir.Lane():
                return ir.Var(0, "a position", part.type, THREAD1, span=part.span)
    return None
