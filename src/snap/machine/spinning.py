"""Loops in which a thread waits for others, and what of a program its threads may run each on its own.

Input: typed or synchronized IR.  Output: sets of statements, by identity.  Invariant: a loop that ends by what an
atomic found is among those that wait; a statement that may be taken apart holds nothing that threads do together.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap.ir import nodes as ir
from snap.ir import synced
from snap.ir.effects import effects
from snap.ir.walk import bodies, callees, own_expressions, statements, walk
from snap.machine.facts import leaves

_TOGETHER = (
    ir.Collective,
    synced.Sync,
    synced.AsyncCommit,
    ir.BoxCopy,
    ir.Wgmma,
    ir.StoreAcc,
    ir.Turn,
    synced.BarrierWait,
    synced.BarrierArrive,
    synced.BarrierExpect,
    synced.Elect,
    ir.Unsafe,
)


def waiting_loops(kernel: synced.AnyFunction) -> set[int]:
    """The loops that end by what an atomic found: their threads may be waiting for others."""
    functions = callees(kernel)
    atomic = {id(f) for f in functions if any(isinstance(s, ir.Atomic) for g in callees(f) for s in statements(g.body))}
    loops = (s for f in functions for s in statements(f.body) if isinstance(s, (ir.For, ir.While)))
    return {loop.number for loop in loops if _waits(loop, atomic)}


def _waits(loop: ir.For | ir.While, atomic: set[int]) -> bool:
    """What an atomic found is followed through variables, through memory, and through what is only assigned where it
    says so.
    """
    inside = list(statements([loop]))
    found: set[int] = set()
    while True:
        before = len(found)
        for s in inside:
            atomically = isinstance(s, ir.Atomic) or (isinstance(s, ir.Call) and id(s.function) in atomic)
            if atomically or any(_reads(e, found) for e in own_expressions(s)):
                for t in statements([s]):
                    found |= _written(t)
        if len(found) == before:
            break
    if isinstance(loop, ir.While) and _reads(loop.cond, found):
        return True
    return any(isinstance(s, ir.If) and _reads(s.cond, found) and (leaves(s.then) or leaves(s.other)) for s in inside)


def _written(s: ir.Stmt) -> set[int]:
    """The variables and the memory that a statement itself gives values."""
    if isinstance(s, ir.Atomic) and s.target is None:
        return set()
    return {e.access.view.obj.uid if e.var is None else e.var.uid for e in effects(s) if e.kind.writes or e.atomic}


def _reads(e: ir.Expr, found: set[int]) -> bool:
    for part in walk(e):
        match part:
            case ir.Read(var) if var.uid in found:
                return True
            case ir.Elem(array) | ir.ArrayValue(array) if array.var.uid in found:
                return True
            case ir.Load(access) if access.view.obj.uid in found:
                return True
    return False


def separable(kernel: synced.AnyFunction, waiting: set[int]) -> set[int]:
    """The outermost statements in which threads wait and do nothing together: there each thread can go its own way."""
    functions = callees(kernel)
    wait = {id(f) for f in functions if any(s.number in waiting for g in callees(f) for s in statements(g.body))}
    together = {
        id(f) for f in functions if any(isinstance(s, _TOGETHER) for g in callees(f) for s in statements(g.body))
    }

    def outermost(body: ir.Body) -> Iterator[int]:
        for s in body:
            inside = list(statements([s]))
            if not any(t.number in waiting or (isinstance(t, ir.Call) and id(t.function) in wait) for t in inside):
                continue
            if leaves((s,)) or any(
                isinstance(t, _TOGETHER) or (isinstance(t, ir.Call) and id(t.function) in together) for t in inside
            ):
                for inner in bodies(s):
                    yield from outermost(inner)
            else:
                yield s.number

    return {found for f in functions for found in outermost(f.body)}
