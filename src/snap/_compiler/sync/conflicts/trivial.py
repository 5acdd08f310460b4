"""Functions in which there is nothing to order: they need no walk.

Input: a function.  Output: whether no two of its accesses must be ordered, as the text says it at a glance.  Invariant:
where it says so, the walk (graph.py) would find no edge, and refuse nothing.  Non-goals: to find all such functions;
what needs a look at indices is the walk's.

Nothing is asynchronous in them, nor in what they call, and each array is only read, or only changed by atomics, or each
thread's own: all that is done to it is done through one name that belongs to one thread.  A name ends with its scope: a
loop that takes the scope again gives the elements to other threads, so the scope stands in none.  Loops that are so few
are not nested too deep.  Of an array that a call is given, another function may do something else to it.
"""

from __future__ import annotations

from collections import Counter

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, begins, effects, loads, passed
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.operations import MemoryOrder
from snap._compiler.ir.types import THREAD1
from snap._compiler.ir.walk import callees, statements
from snap.diag.error import Diagnostic, SnapError

MOST_LOOPS = 10  # that are nested in each other, calls included
_SCOPES = (ir.Partition, ir.Claim)
_LOOPS = (ir.For, ir.While)
_HARMLESS = frozenset(
    (
        *(ir.Declare, ir.Assign, ir.If, *_LOOPS, ir.Break, ir.Continue, ir.Return, ir.Call, ir.Group, *_SCOPES),
        *(ir.Collective, ir.Assert, ir.Print, ir.Atomic),
    )
)


def nested_too_deep(s: ir.For | ir.While) -> SnapError:
    message = f"loops are nested more than {MOST_LOOPS} deep, calls included"
    return SnapError(Diagnostic("SNAP017", message, s.span, help="use one loop and divide its counter"))


def orders_nothing(function: ir.AnyFunction) -> bool:
    every = [s for f in callees(function) for s in statements(f.body)]
    if not all(type(s) in _HARMLESS for s in every):
        return False
    done = [(e, e.access.view.obj.uid) for s in every for e in effects(s) if e.access is not None]
    changed = [(e, uid) for e, uid in done if e.kind.writes or e.atomic]
    if changed and any(not p.handle.const for s in every for p, _, _ in passed(s)):
        return False
    atomically = {uid for e, uid in changed if e.atomic}
    otherwise = {uid for e, uid in done if not e.atomic}
    otherwise.update(a.view.obj.uid for s in every for a in loads(s))
    return (
        sum(isinstance(s, _LOOPS) for s in every) <= MOST_LOOPS
        and all(begins(s) is Engine.THREADS for s in every)
        and _are_own([e for e, _ in changed if not e.atomic], every)
        and atomically.isdisjoint(otherwise)
        and not (function.kernel and any(isinstance(s, ir.Atomic) and s.order != MemoryOrder.RELAXED for s in every))
    )


def _are_own(changed: list[Effect], every: list[ir.Stmt]) -> bool:
    """Return whether these are done to what is one thread's own, for as long as the function runs."""
    names: dict[int, set[int]] = {}  # by array: through which of its names something is done to it
    for s in every if changed else ():
        for access in (*loads(s), *(e.access for e in effects(s) if e.access is not None)):
            names.setdefault(access.view.obj.uid, set()).add(access.handle.uid)
        for _, a, handle in passed(s):
            names.setdefault(a.obj.uid, set()).add(handle.uid)
    taken = Counter(s.handle.uid for s in every if isinstance(s, _SCOPES))
    looped = (s for loop in every if isinstance(loop, _LOOPS) for s in statements((loop,)))
    again = {s.handle.uid for s in looped if isinstance(s, _SCOPES)}
    return all(
        e.privilege == THREAD1
        and len(names[e.access.view.obj.uid]) == 1
        and taken[e.access.handle.uid] <= 1
        and e.access.handle.uid not in again
        for e in changed
        if e.access is not None
    )
