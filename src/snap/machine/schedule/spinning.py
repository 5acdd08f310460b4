"""Loops in which a thread waits for others, and what of a program its threads may run each on its own.

Input: typed or synchronized IR.  Output: sets of statements, by identity.  Invariant: a loop that ends by what an
atomic found is among those that wait; a statement that may be taken apart holds nothing that more threads do together
than those that stay together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import effects
from snap._compiler.ir.hardware import PARTS
from snap._compiler.ir.synced import PointKind, SyncHalf
from snap._compiler.ir.types import THREAD1, WARP1, Level, Privilege
from snap._compiler.ir.walk import bodies, callees, own_expressions, statements, walk
from snap.machine.source.facts import leaves

_TOGETHER = (*synced.AS_ONE, synced.AsyncCommit, ir.Turn, ir.Unsafe)


def waiting_loops(kernel: synced.AnyFunction) -> set[int]:
    """The loops that end by what an atomic found: their threads may be waiting for others."""
    functions = callees(kernel)
    atomic = {f.uid for f in functions if any(isinstance(s, ir.Atomic) for g in callees(f) for s in statements(g.body))}
    loops = (s for f in functions for s in statements(f.body) if isinstance(s, (ir.For, ir.While)))
    return {loop.number for loop in loops if _waits(loop, atomic)}


def _waits(loop: ir.For | ir.While, atomic: set[int]) -> bool:
    """Test whether a loop waits for an atomic: follow its result through variables and through memory, and through
    assignments that depend on it.
    """
    inside = list(statements((loop,)))
    found: set[int] = set()
    while True:
        before = len(found)
        for s in inside:
            atomically = isinstance(s, ir.Atomic) or (isinstance(s, ir.Call) and s.function.uid in atomic)
            if atomically or any(_reads(e, found) for e in own_expressions(s)):
                for t in statements((s,)):
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
    made = [e for e in effects(s) if e.kind.writes or e.atomic]
    variables = {e.var.uid for e in made if e.var is not None}
    return variables | {e.access.view.obj.uid for e in made if e.var is None and e.access is not None}


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


def separable(kernel: synced.AnyFunction, waiting: set[int]) -> dict[int, Privilege]:
    """The outermost statements in which threads wait, and what they do together is done by parts of a warp at most:
    there each part can go its own way, each thread where there is nothing.  With what parts those are.
    """
    functions = callees(kernel)
    wait = {f.uid for f in functions if any(s.number in waiting for g in callees(f) for s in statements(g.body))}
    parts = {f.uid: _largest(_part(s) for g in callees(f) for s in statements(g.body)) for f in functions}

    def outermost(body: ir.Body) -> Iterator[tuple[int, Privilege]]:
        for s in body:
            inside = list(statements((s,)))
            if not any(t.number in waiting or (isinstance(t, ir.Call) and t.function.uid in wait) for t in inside):
                continue
            part = _largest(parts[t.function.uid] if isinstance(t, ir.Call) else _part(t) for t in inside)
            if leaves((s,)) or part.at_least(WARP1):
                for inner in bodies(s):
                    yield from outermost(inner)
            else:
                yield s.number, part

    return {number: part for f in functions for number, part in outermost(f.body)}


def _largest(parts: Iterable[Privilege]) -> Privilege:
    return reduce(Privilege.joined, parts, THREAD1)


def _part(s: ir.Stmt) -> Privilege:
    """Return which threads of a warp execute it together, with nothing in it that others of the warp must reach: each
    on its own, or the warp where that cannot be said.
    """
    match s:
        case ir.Collective(requires=Privilege(level=Level.THREAD, n=n) as part) if n in PARTS:
            return part
        case synced.Sync(point, place, SyncHalf.BOTH) if point.kind == PointKind.WARP:
            part = point.participants
            return part if part.n in PARTS and place[Level.THREAD].aligned_to(part.n) else WARP1
    return WARP1 if isinstance(s, _TOGETHER) else THREAD1
