"""Find the threads of a group that act for it.

Input:      the scope that a statement stands in, and the size of the group it acts for
Output:     the index within that group, and the condition for its first thread
Invariant:  inside `Elect` only the first thread is there, so nothing asks again; statements in a row that one thread
            issues share one condition
Non-goals:  how many groups there are
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.positions import LevelIndex, within
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import Level, Place, Privilege


def threads_of(scope: Scope, unit: Privilege) -> int:
    """Count the threads of a block that a unit has."""
    return unit.n if unit.level is Level.THREAD else scope.module.threads


def index(scope: Scope, threads: int | None = None) -> tree.Expr:
    """This thread's index in its group of so many; in the whole current group without a number (of a block's threads,
    where it is larger).
    """
    inside = _position(scope, threads)
    return inside.use(signed=False) if inside is scope.positions[Level.THREAD] else inside.formula()


def _position(scope: Scope, threads: int | None) -> LevelIndex:
    if threads is None or (scope.place.top is not Level.THREAD and threads >= scope.module.threads):
        return scope.positions[Level.THREAD]
    return within(scope.positions, scope.place, Privilege(Level.THREAD, threads))


def first_thread(scope: Scope, threads: int | None = None) -> tree.Expr | None:
    """The condition that singles out the first thread of the group; None where it is alone anyway."""
    if scope.elected or threads == 1:
        return None
    inside = _position(scope, threads)
    if inside.zero:
        return None
    # The position says itself who is first.
    if inside.offset and not inside.modulus and inside.source is not None and inside.source.plain:
        return tree.Binary("==", inside.source.use(signed=False), tree.Integer(inside.offset))
    return tree.Binary("==", index(scope, threads), tree.Integer(0))


def only(cond: tree.Expr | None, *statements: tree.Stmt) -> list[tree.Stmt]:
    return list(statements) if cond is None else [tree.If(cond, statements)]


def gathered(scope: Scope, statements: ir.Body) -> ir.Body:
    """Runs of statements that the group's first thread issues, each as one `Elect`."""
    if scope.elected or not any(map(_issued, statements)):
        return statements
    out: list[ir.Stmt] = []
    for s in statements:
        place, last = _issued(s), out[-1] if out else None
        if place is None:
            out.append(s)
        elif isinstance(last, synced.Elect) and last.place == place:
            out[-1] = synced.Elect(place, (*last.body, s), span=last.span)
        else:
            out.append(synced.Elect(place, (s,), span=s.span))
    return tuple(out)


def _issued(s: ir.Stmt) -> Place | None:
    """The group whose first thread issues the statement; None where each thread executes it."""
    match s:
        case ir.BoxCopy() | ir.BoxPrefetch() | synced.MBarrierExpect() | synced.AsyncCommit(engine=Engine.BOXES):
            return s.place
        case synced.MBarrierArrive(barrier, _, by, place, point):
            return place if not barrier.everywhere and not point.fence and _whole(place, by) else None
        case _:
            return None


def _whole(place: Place, by: Privilege) -> bool:
    """Return whether `by` is all of the current group, and more than a warp: threads of a warp must meet before one
    arrives for them.
    """
    if by.level is not Level.THREAD or place.top is not Level.THREAD:
        return by.level is place.top and by.level is not Level.CLUSTER
    held = place[Level.THREAD]
    return by.n > WARP and held.count == by.n and not held.open
