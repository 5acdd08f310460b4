"""Synchronization: typed IR -> synchronized IR.

Input: a checked function.  Output: the same tree with `Sync` statements, callees included.  Invariant: between two
accesses of one element by different threads, one of them a write, a barrier of a group that contains both is executed
on every path; and no barrier can be left out. Work in the background (copies, boxes, products) is waited for where its
data is used.  Memory that roles hand to each other, or into which boxes are loaded, is ordered by mbarriers
(channels.py, weave.py); their slots are given back by the waits for what was made of them (slots.py); each role becomes
a program of its own (project.py), and waits for products that find none are left out (flight.py).  Non-goals: what the
program means.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from snap.ir import nodes as ir
from snap.ir.depth import deep
from snap.ir.operations import COLLECTIVES
from snap.ir.types import Level
from snap.ir.walk import statements, with_bodies
from snap.sync.channels import find
from snap.sync.cover import cover
from snap.sync.flight import without_idle_waits
from snap.sync.graph import Graph
from snap.sync.groups import plan_copies
from snap.sync.inline import inline, must_be_inlined
from snap.sync.insert import insert, original
from snap.sync.project import project
from snap.sync.relax import relax
from snap.sync.slots import give_back
from snap.sync.weave import weave

__all__ = ["brought", "original", "points", "probe", "synchronize"]


def synchronize(function: ir.Function) -> ir.Function:
    """Raises SnapError SNAP020 where what is asked cannot be synchronized."""
    with _uncollected(), deep():
        return _synchronize(function)


def probe(function: ir.Function) -> None:
    """Raises what `synchronize` would for a device function on its own.

    What it calls was looked at when that was defined; where a barrier beside the call orders all the two have in
    common, the calls are not entered again, so that functions that call functions take as long as their own texts.  The
    kernel is synchronized as a whole in any case.
    """
    synchronize(_without_callees(function) if _meets_beside_calls(function) else function)


def _without_callees(function: ir.Function) -> ir.Function:
    def hollow(s):
        return replace(s, function=replace(s.function, body=())) if isinstance(s, ir.Call) else with_bodies(s, body)

    body = lambda statements: tuple(map(hollow, statements))  # noqa: E731
    return replace(function, body=body(function.body))


def _meets_beside_calls(function: ir.Function) -> bool:
    """All of the block, or of a part of a warp, calls, and the memory is its own: it can meet before any call and
    behind it.  Work in the background and roles are synchronized over the whole program instead.
    """
    place, privilege = function.place, function.place.privilege
    met = (
        privilege.n == 1
        if privilege.level is Level.BLOCK
        else privilege.level is Level.THREAD and privilege.n in (1, 2, 4, 8, 16, 32)
    )
    own = all(p.handle.const or p.handle.privilege == privilege for p in function.params if isinstance(p, ir.MemParam))
    calls = [s for s in statements(function.body) if isinstance(s, ir.Call)]
    return (
        met
        and own
        and bool(calls)
        and all(s.place == s.function.place == place for s in calls)
        and not must_be_inlined(function)
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Many small tuples are made, in no cycles: collections in between, over all objects alive, would take a third of
    the time.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _synchronize(function: ir.Function) -> ir.Function:
    if function.kernel:
        function = inline(function)
    woven = weave(function, find(function))
    function = woven.function
    graph = Graph(function, woven=woven)
    edges = graph.run()
    marks = cover(edges, graph.gaps, function)
    commits, duties = plan_copies(function, edges, graph.gaps, marks, woven, graph.overlap.memo)
    marks = relax(function, edges, graph.gaps, marks, duties)
    return without_idle_waits(project(give_back(insert(function, marks, commits, duties), woven.lagging)))


def points(function: ir.Function, collectives: bool = False) -> list[ir.SyncPoint]:
    """The points of a synchronized function and of all it calls, each function once, in the order of the text;
    `collectives`: with those that collectives bring along.

    Calls of one function may need different points; then they call copies of it, which share its number."""
    found: list[ir.SyncPoint] = []
    seen: set[int] = set()

    def visit(f: ir.Function) -> None:
        if id(f) in seen:
            return
        seen.add(id(f))
        for s in statements(f.body):
            match s:
                case ir.Sync(point) | ir.BarrierWait(point=point) if point not in found:  # it may stand in two places
                    found.append(point)
                case ir.Collective() if collectives:
                    found.extend(brought(s))
                case ir.Call(callee):
                    visit(callee)

    visit(function)
    return found


def brought(s: ir.Collective) -> list[ir.SyncPoint]:
    """The barriers that a collective consists of, or contains: they stand in the generated code, though nobody inferred
    them.
    """
    if not COLLECTIVES[s.op].barrier:
        return []
    kind = {Level.THREAD: "warp", Level.BLOCK: "block", Level.CLUSTER: "cluster", Level.GRID: "grid"}[s.requires.level]
    reasons = _BROUGHT.get(s.op, ("the program asks for it",))
    number = -(s.span.line << 16 | s.span.column << 1)  # which no inferred point has
    who = str(s.requires)
    return [
        ir.SyncPoint(number - k, kind, s.requires, s.op, reason, s.span, s.span, arrivals=who, waiters=who, span=s.span)
        for k, reason in enumerate(reasons)
    ]


_BROUGHT = {
    "broadcast": (
        "the value is written before it is read",
        "everyone has read the value before its place is used again",
    ),
    **dict.fromkeys(
        ("syncthreads_or", "syncthreads_and", "syncthreads_count"), ("the answer takes every thread's value",)
    ),
}
