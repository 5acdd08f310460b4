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
from snap.ir import synced
from snap.ir.depth import deep
from snap.ir.hardware import WARP
from snap.ir.numbering import Numbers
from snap.ir.types import Level
from snap.ir.walk import statements, with_bodies
from snap.sync.begin import begin
from snap.sync.channels import find
from snap.sync.cover import cover
from snap.sync.flight import without_idle_waits
from snap.sync.graph import Graph
from snap.sync.groups import plan_copies
from snap.sync.inline import inline, must_be_inlined
from snap.sync.insert import insert
from snap.sync.project import project
from snap.sync.relax import relax
from snap.sync.slots import give_back
from snap.sync.weave import weave

__all__ = ["probe", "synchronize"]


def synchronize(function: ir.Function) -> synced.Function:
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
        else privilege.level is Level.THREAD and WARP % privilege.n == 0
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


def _synchronize(function: ir.Function) -> synced.Function:
    if function.kernel:
        function = inline(function)
    numbers = Numbers()
    begun = begin(function, numbers)
    woven = weave(begun, find(begun), numbers)
    text = woven.function
    graph = Graph(text, woven=woven)
    edges = graph.run()
    marks = cover(edges, graph.gaps, text)
    commits, duties = plan_copies(text, edges, graph.gaps, marks, woven, graph.overlap.memo)
    marks = relax(text, edges, graph.gaps, marks, duties)
    text = give_back(insert(text, marks, commits, duties, numbers), woven.lagging, numbers)
    return without_idle_waits(project(text, numbers))
