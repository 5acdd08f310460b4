"""Synchronization: typed IR -> synchronized IR.

Input: a checked function.  Output: the same tree with `Sync` statements, callees included.  Invariant: between two accesses of one element by different
threads, one of them a write, a barrier of a group that contains both threads is executed on every path.  Non-goals: the fewest points (the placement is
per scope), asynchronous copies, pipelines.
"""

from __future__ import annotations

from snap.ir import nodes as ir
from snap.sync.conflicts import Analysis, Summary
from snap.sync.insert import insert

__all__ = ["points", "synchronize"]


def synchronize(function: ir.Function) -> ir.Function:
    """Raises SnapError SNAP020 where what is asked cannot be synchronized."""
    return _synchronize(function, {})[0]


def _synchronize(function: ir.Function, done: dict[int, tuple[ir.Function, Summary]]) -> tuple[ir.Function, Summary]:
    if function.uid not in done:
        analysis = Analysis(function, lambda callee: _synchronize(callee, done)[1])
        marks = analysis.run()
        done[function.uid] = insert(function, marks, lambda callee: _synchronize(callee, done)[0]), analysis.summary
    return done[function.uid]


def points(function: ir.Function) -> list[ir.SyncPoint]:
    """The points of a synchronized function and of all it calls, each function once, in the order of the text."""
    from snap.ir.walk import statements

    found: list[ir.SyncPoint] = []
    seen: set[int] = set()

    def visit(f: ir.Function) -> None:
        if f.uid in seen:
            return
        seen.add(f.uid)
        for s in statements(f.body):
            match s:
                case ir.Sync(point):
                    if all(point is not p for p in found):
                        found.append(point)
                case ir.Call(callee):
                    visit(callee)

    visit(function)
    return found
