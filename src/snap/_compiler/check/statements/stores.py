"""Check stores that say how the caches treat them: `intrinsic.store(y[i], v, cache=...)`.

Input: the tree of the call.  Output: the assignment that `y[i] = v` is, with the wish in it.  Invariant: what is
written, and by whom, is checked as for that assignment.  Non-goals: loads and prefetches (check/operations/hints.py).
"""

from __future__ import annotations

from snap._compiler.check.core.dispatch import calls
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.operations.hints import of_global, wishes
from snap._compiler.check.statements.assignments import assign
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.operations import STORE_CACHES
from snap.record import replace

STORE = '`intrinsic.store(y[i], v, cache="cs")`, `intrinsic.store(y[i], v, l2="evict_first")`'


@calls("intrinsic.store")
def _hinted_store(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    cache, l2 = wishes(c, e, "store", 2, STORE_CACHES, STORE)
    c.effects_allowed("a store", e.span)
    if not isinstance(e.args[0], tree.Subscript):
        raise c.type_error("`intrinsic.store` takes an element of memory", e.args[0].span, help=STORE)
    mark = len(c.out)
    assign(c, tree.Assign(e.args[0], e.args[1], span=e.span))
    match c.out[mark:]:
        case [*_, ir.Assign(ir.MemTarget() as target) as made]:
            of_global(c, target.access, "store", e.args[0].span)
            c.out[-1] = replace(made, target=replace(target, cache=cache, l2=l2))
        case [*_, ir.Assign()]:
            raise c.type_error(
                "`intrinsic.store` writes memory, and this is in registers", e.args[0].span, help="assign it"
            )
