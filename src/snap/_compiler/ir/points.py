"""List what a synchronized function says of its synchronization: its points, and which function a copy is of.

Input: the synchronized IR.  Output: lists to show, to count and to compare.  Non-goals: choosing points
(`snap._compiler.sync`).
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.operations import COLLECTIVES, SyncHalf
from snap._compiler.ir.synced import meets
from snap._compiler.ir.walk import statements
from snap.diag.span import Span
from snap.record import record

MOST_TWINS = 4096  # copies of one function


def original(function: ir.AnyFunction) -> int:
    """The number of the function that this is, or that it is a copy of."""
    return function.uid if function.uid >= 0 else -function.uid // MOST_TWINS


def points(function: ir.AnyFunction, collectives: bool = False) -> list[synced.SyncPoint]:
    """The points of a synchronized function and of all it calls, each function once, in the order of the text;
    `collectives`: with those that collectives bring along.

    Calls of one function may need different points; then they call copies of it, each with a number of its own."""
    found: list[synced.SyncPoint] = []
    seen: set[int] = set()

    def visit(f: ir.AnyFunction) -> None:
        if f.uid in seen:
            return
        seen.add(f.uid)
        for s in statements(f.body):
            match s:
                case synced.Sync(point) | synced.MBarrierWait(point=point):
                    if point not in found:  # it may stand in two places
                        found.append(point)
                case ir.Collective() if collectives:
                    found.extend(brought(s))
                case ir.Call(callee):
                    visit(callee)

    visit(function)
    return found


def brought(s: ir.Collective) -> list[synced.SyncPoint]:
    """The barriers that a collective consists of, or contains: they stand in the generated code, though nobody inferred
    them.
    """
    op = COLLECTIVES[s.op]
    if not op.barrier or op.half is SyncHalf.ARRIVE:
        return []
    kind = meets(s.requires)
    if op.half is SyncHalf.WAIT and kind is not synced.PointKind.CLUSTER:
        kind = synced.PointKind.MBARRIER
    reasons = _BROUGHT.get(s.op, ("the program asks for it",))
    number = -(s.span.line << 16 | s.span.column << 1)  # which no inferred point has
    who = str(s.requires)
    return [
        synced.SyncPoint(
            number - k,
            kind,
            s.requires,
            s.op,
            reason,
            s.span,
            s.span,
            number=s.attr("number", 0),
            arrivals=who,
            waiters=who,
            span=s.span,
        )
        for k, reason in enumerate(reasons)
    ]


_BROUGHT = {
    "broadcast": (
        "the value is written before it is read",
        "everyone has read the value before its place is used again",
    ),
    "broadcast_cluster": (
        "the value is written before it is read",
        "everyone has read the value before its place is used again",
    ),
    "broadcast_grid": ("the value is written before it is read",),
    **dict.fromkeys(
        ("any_cluster", "all_cluster", "count_cluster"),
        ("the answer takes every block's votes", "everyone has read the votes before their places are used again"),
    ),
    **dict.fromkeys(
        (*("syncthreads_or", "syncthreads_and", "syncthreads_count"), *("any_grid", "all_grid", "count_grid")),
        ("the answer takes every thread's value",),
    ),
}


# ---- the graph of accesses -------------------------------------------------------------------------------------------


@record
class Dependence:
    """Two accesses of one object that must be ordered: what each does, where, and the points that order them."""

    object: str
    first: Span
    second: Span
    does: tuple[str, str]
    points: tuple[PointKey, ...]


GONE = "gone when its block exits"  # what happens to shared memory at the end: no access, but ordered like one
PointKey = tuple[str, str, Span, Span]


def key_of(point: synced.SyncPoint) -> PointKey:
    """Return what tells a point apart from the others of its function, whatever statement it stands in."""
    return point.kind, point.reason, point.first, point.second
