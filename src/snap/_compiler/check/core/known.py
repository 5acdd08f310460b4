"""Find out what the text tells about values: which keep their first one, and who agrees on them.

Input: typed expressions and the state.  Output: the first part of an expression that a group may disagree on.
Invariant: it errs on the safe side: a part that might differ.  Non-goals: what values are (analysis/syntactic.py).
"""

from __future__ import annotations

from snap._compiler.analysis.uniform import differs
from snap._compiler.check.core import convert
from snap._compiler.check.core.state import Checker, Construct, ConstructKind
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, CLUSTER1, THREAD1, Privilege
from snap._compiler.ir.walk import walk


def note_value(c: Checker, var: ir.Var, value: ir.Expr | None, read_only: bool = False) -> None:
    """Remember what is known of a new variable, if it keeps its first value."""
    if value is None or not convert.is_integer(value) or var.name in c.assigned and not read_only:
        return
    if isinstance(value, ir.UnitId) and value.target == BLOCK1 and value.place.privilege == CLUSTER1:
        c.own_ranks.add(var.uid)
    c.declared[var.uid] = (value,)


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
