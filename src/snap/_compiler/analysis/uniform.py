"""Tell who agrees on a value.

Input: expressions, a group, and the bounds that loop variables come from.  Output: the first part on which threads of
one unit of the group may disagree.  Invariant: it errs on the safe side: a part that might differ.  Non-goals: what the
value is.
"""

from __future__ import annotations

from collections.abc import Mapping

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import THREAD1, Level, Privilege
from snap._compiler.ir.walk import children


def differs(p: Privilege, ranges: Mapping[int, tuple[ir.Expr, ...]], *exprs: ir.Expr) -> ir.Expr | None:
    """The first part of the expressions on which threads of one unit of p may disagree; a loop's variable is as good as
    its bounds.
    """
    for e in exprs:
        match e:
            case ir.Read(var):
                if not var.privilege.at_least(p) and (
                    var.uid not in ranges or differs(p, ranges, *ranges[var.uid]) is not None
                ):
                    return e
            case ir.Elem(array) | ir.ArrayValue(array) if not array.var.privilege.at_least(p):
                return e
            case ir.Load(access) if not access.handle.privilege.at_least(p) or _own(access) and p.level > Level.BLOCK:
                return e
            case ir.UnitId(target) if not target.at_least(p):
                return e
            case ir.Lane() if not THREAD1.at_least(p):
                return e
            case _:
                found = differs(p, ranges, *children(e))
                if found is not None:
                    return found
    return None


def _own(access: ir.MemAccess) -> bool:
    """Tell whether each block reads its own part, or a copy that not all blocks have."""
    obj = access.view.obj
    return obj.part is not None or obj.spread is ir.Spread.ACROSS and access.block is None
