"""Barriers in two parts, `arrive` and `wait`: whether they come in turn on all paths.

Input: the body of a function, typed or synchronized.  Output: what is wrong, and where in the text a group has
arrived and not waited yet.  Rule: each piece of code that one group executes together (a function's, a group's, a
case's) has one such barrier.  On every path through it arrive and wait come in turn, arrive first; where paths meet,
the group has arrived on all of them or on none; and at the end it has waited.  So all threads of the group, which
take the same branches there, arrive and wait the same number of times.  Between the two a cluster meets at no other
barrier: it has one.  Non-goals: who executes the code (the checker's), what the barriers order.
"""

from __future__ import annotations

from enum import Enum, auto

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.dataflow import Forward
from snap._compiler.ir.operations import COLLECTIVES, SyncHalf
from snap._compiler.ir.types import CLUSTER1
from snap._compiler.ir.walk import callees, contains, statements
from snap.record import record


class Misuse(Enum):
    WAITS = auto()  # without an arrival
    TWICE = auto()  # arrives, and has not waited
    ONE_WAY = auto()  # has arrived on one way through an `if`, and not on the other
    ROUND = auto()  # has arrived at one end of an iteration, and not at the other
    ENDS = auto()  # has arrived, and its code ends
    LEAVES = auto()  # and it returns
    MEETS = auto()  # has arrived at the cluster's barrier, and comes to it again by something else


@record
class MatchFault:
    """One misuse: the statement, and where the group has arrived."""

    misuse: Misuse
    at: ir.Stmt
    arrived: ir.Collective | None = None


@record
class Arrived:
    """Hold where the group has arrived; None where it need not wait."""

    at: ir.Collective | None = None


_NOWHERE = Arrived()


def half_of(s: ir.Stmt) -> SyncHalf:
    """Return which part of a barrier by hand a statement is; BOTH of what is none."""
    return COLLECTIVES[s.op].half if isinstance(s, ir.Collective) else SyncHalf.BOTH


_BY_HAND = frozenset((ir.Collective,))


def has_halves(body: ir.Body) -> bool:
    """Tell whether these statements have barriers in two parts, calls not entered."""
    found = statements(body) if contains(body, _BY_HAND) else ()
    return any(type(s) is ir.Collective and half_of(s) is not SyncHalf.BOTH for s in found)


class Halves(Forward[Arrived]):
    """wrong: in the order in which it is found; parted: the gaps (before or behind a statement, or where the condition
    of a loop is evaluated) at which a cluster has arrived and not waited.
    """

    def __init__(self, body: ir.Body):
        super().__init__()
        self.wrong: list[MatchFault] = []
        self.parted: set[tuple[str, int]] = set()
        self._code(body)

    def _code(self, body: ir.Body) -> None:
        """Code that one group executes together."""
        end = self.body(body, _NOWHERE)
        if end is not None and end.at is not None:
            self._note(Misuse.ENDS, end.at, end.at)

    def _note(self, misuse: Misuse, s: ir.Stmt, arrived: ir.Collective | None = None) -> None:
        if not any(w.misuse is misuse and w.at is s for w in self.wrong):
            self.wrong.append(MatchFault(misuse, s, arrived))

    def join(self, a: Arrived, b: Arrived, s: ir.Stmt) -> Arrived:
        if (a.at is None) is not (b.at is None):
            self._note(Misuse.ROUND if isinstance(s, (ir.For, ir.While)) else Misuse.ONE_WAY, s, a.at or b.at)
        return a

    def inside(self, s: ir.Stmt, k: int, body: ir.Body, state: Arrived) -> Arrived | None:
        if not isinstance(s, (ir.Group, ir.Split)):
            return self.body(body, state)
        self._code(body)
        return state

    def out_of(self, s: ir.Break | ir.Continue | ir.Return, state: Arrived) -> Arrived:
        if isinstance(s, ir.Return) and state.at is not None:
            self._note(Misuse.LEAVES, s, state.at)
        return state

    def transfer(self, s: ir.Stmt, state: Arrived) -> Arrived:
        if isinstance(s, ir.While):
            self._gap("condition", s, state)
        if state.at is not None and state.at.requires == CLUSTER1 and _meets_a_cluster(s):
            self._note(Misuse.MEETS, s, state.at)
        match half_of(s):
            case SyncHalf.ARRIVE:
                assert isinstance(s, ir.Collective)
                if state.at is not None:
                    self._note(Misuse.TWICE, s, state.at)
                return Arrived(s)
            case SyncHalf.WAIT:
                if state.at is None:
                    self._note(Misuse.WAITS, s)
                return _NOWHERE
        return state

    # ---- gaps -------------------------------------------------------------------------------------------------------

    def before(self, s: ir.Stmt, state: Arrived) -> Arrived:
        self._gap("before", s, state)
        return state

    def after(self, body: ir.Body, state: Arrived) -> Arrived:
        self._gap("after", body[-1], state)
        return state

    def _gap(self, kind: str, s: ir.Stmt, state: Arrived) -> None:
        if state.at is not None and state.at.requires == CLUSTER1:
            self.parted.add((kind, s.number))


def _meets_a_cluster(s: ir.Stmt) -> bool:
    match s:
        case ir.Collective():
            op = COLLECTIVES[s.op]
            return op.barrier and op.half is SyncHalf.BOTH and s.requires == CLUSTER1
        case synced.Sync(point):
            return point.kind is synced.PointKind.CLUSTER
        case ir.Call(function):
            return any(
                _meets_a_cluster(x) or _arrives_by_cluster(x) for f in callees(function) for x in statements(f.body)
            )
    return False


def _arrives_by_cluster(s: ir.Stmt) -> bool:
    return half_of(s) is not SyncHalf.BOTH and isinstance(s, ir.Collective) and s.requires == CLUSTER1
