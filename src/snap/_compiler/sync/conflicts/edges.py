"""Find which accesses must be ordered: the visitor that finds the edges, and what it shares with others.

Input: the steps of the walk (graph.py).  Output: edges, each a pair of accesses in conflict, with the group that must
wait between them and the gaps that every path from one to the other crosses.

A `Visitor` is told of each access, and compares it with what has happened (conflict.py).  What it does with a pair is
up to it: `Finder` makes an edge, `Counter` (groups.py) counts the work in flight.
"""

from __future__ import annotations

from collections.abc import Collection

from snap._compiler.analysis.linear.values import Frame
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import BLOCK1, Level, Privilege, meets_alone
from snap._compiler.sync.conflicts.concurrent import Concurrent, Counts, Regions
from snap._compiler.sync.conflicts.conflict import conflict
from snap._compiler.sync.conflicts.context import Context
from snap._compiler.sync.conflicts.paths import Paths
from snap._compiler.sync.conflicts.place import Moment
from snap._compiler.sync.conflicts.release_acquire import ReleaseAcquire
from snap._compiler.sync.conflicts.tokens import Edge, Gap, GapKey, Here, ObjectKey, Token, altered
from snap._compiler.sync.conflicts.touches import Touching
from snap.diag.error import Diagnostic, Label, SnapError


class Visitor:
    """Act at the steps of a walk; a step that says nothing here does nothing."""

    def __init__(self, context: Context, gaps: dict[GapKey, Gap]):
        self.context, self.gaps = context, gaps
        self.last_gap = 0  # where the walk is
        self.barriers: dict[int, list[Privilege]] = {}  # by gap
        self.release_acquire = ReleaseAcquire(context, gaps)
        self.touching = Touching(context)
        self.concurrent = Regions()

    # ---- steps of the walk ------------------------------------------------------------------------------------------

    def crossing(self, gap: Gap, paths: Paths) -> None:
        """The walk comes to one of the gaps at which there is a barrier."""

    def ended(self, statements: list[Here], paths: Paths) -> None:
        """These come to their ends."""

    def goes_around(self, begun: Counts) -> None:
        """A loop goes around for the first time; `begun`: what `concurrent` had counted where the loop began."""

    def concerned(self, s: ir.Stmt, frame: Frame, paths: Paths) -> bool:
        """Return whether there is something to see in a statement that has been walked before."""
        return self.touching.concerned(frame, s, paths.tokens)

    # ---- accesses ---------------------------------------------------------------------------------------------------

    def wants(self, obj: ObjectKey, engine: Engine, m: Moment) -> bool:
        """Return whether an access matters: where a loop is walked again, with what has come around."""
        raise NotImplementedError

    def access(self, b: Token, m: Moment, stays: bool) -> None:
        """stays: later accesses are compared with this one."""
        raise NotImplementedError

    def waited(self, t: Token, m: Moment) -> None:
        """That somebody has waited for a load."""

    def acquires(self, m: Moment) -> None:
        """An atomic is about to be executed."""
        self.release_acquire.acquires(m)

    def atomic(self, m: Moment) -> None:
        """Order what it releases, and what it acquires."""
        for a, b, need, unless in self.release_acquire.released(m):
            self.pair(a, b, need, m.paths.since(a), unless)

    def pair(self, a: Token, b: Token, need: Privilege, crossed: int, unless: tuple[ObjectKey, ...] = ()) -> None:
        """Two accesses between which this group must wait; not if these arrays are columns (release_acquire.py)."""
        raise NotImplementedError

    def happened(self, t: Token, m: Moment) -> None:
        """It takes the place of the same access in an earlier iteration.  Where a loop is walked again, what follows
        from it is known.
        """
        if not m.around:
            m.paths.held(t.obj)[t.key] = t
        elif t.key in m.paths.tokens.get(t.obj, {}):
            m.paths.drop(t.obj, [t.key])

    def compare(self, b: Token, m: Moment) -> None:
        """The pairs that an access makes with what has happened.  Where all who may touch the object, or all who share
        the owner, have met, what this access conflicts with later is ordered after it.
        """
        obj, paths = b.obj, m.paths
        held = paths.tokens.get(obj)
        if not held:
            return
        over: list[tuple] = []
        ordered: list[Token] = []
        changes = b.changes
        for key, t in held.items():
            found = conflict(t, b, self.context) if changes or t.changes else None
            if found is None:
                continue
            if t.loading:
                if self.context.function.kernel:  # of a device function on its own, nobody knows who waits
                    raise _loaded_twice(t, b, self.context.declared.words[obj])
                continue
            need, owner = found.participants, found.owner.privilege
            self.pair(t, b, need, paths.since(t))
            if found.whole and not m.where.splits and not self._fenced_later(t):
                if owner == b.names[-1].privilege:
                    over.append(key)
                elif not t.in_flight and (t.ordered is None or need.at_least(t.ordered)):
                    over.append(key)
                    ordered.append(altered(t, ordered=need))
        paths.drop(obj, over)
        for t in ordered:
            have = paths.held(obj).get(t.key)
            paths.held(obj)[t.key] = t if have is None else paths.both(t, have)

    def _fenced_later(self, t: Token) -> bool:
        """Return whether a later access may need a fence, too."""
        return t.by_threads and bool(self.context.background) and t.obj in self.context.declared.ranges


class Finder(Visitor):
    """Finds the edges.  Invariant: an edge has for candidates the gaps that all paths have crossed."""

    def __init__(self, context: Context, gaps: dict[GapKey, Gap]):
        super().__init__(context, gaps)
        self.concurrent: Concurrent = Concurrent(context)
        self.edges: dict[tuple, Edge] = {}

    def wants(self, obj: ObjectKey, engine: Engine, m: Moment) -> bool:
        return not m.around or bool(m.paths.tokens.get(obj))

    def access(self, b: Token, m: Moment, stays: bool) -> None:
        self.compare(b, m)
        for t, _, need, unless in self.release_acquire.learned(b, m):
            self.pair(t, b, need, m.paths.since(t), unless)
        if not m.around:
            for t, _, found in self.concurrent.access(b):
                self.pair(t, b, found.participants, 0)
        if stays:
            self.happened(b, m)

    def waited(self, t: Token, m: Moment) -> None:
        self.happened(t, m)

    def atomic(self, m: Moment) -> None:
        super().atomic(m)
        acquired = self.release_acquire.acquired(m)
        if acquired is not None:
            self.happened(acquired, m)

    def goes_around(self, begun: Counts) -> None:
        for t, b, found in self.concurrent.around(begun):
            self.pair(t, b, found.participants, 0)

    def pair(self, a: Token, b: Token, need: Privilege, crossed: int, unless: tuple[ObjectKey, ...] = ()) -> None:
        key = (a.site, a.footprint, a.ages, a.fills, b.site, b.engine, need, unless)
        younger = max(0, a.commits)
        have = self.edges.get(key)
        if have is None:
            name = self.context.declared.words.get(b.obj, b.name)
            self.edges[key] = Edge(a, b, need, crossed, name, self.last_gap, younger, crossed & ~a.early, unless)
        else:
            have.candidates &= crossed
            have.late &= crossed & ~a.early
            have.younger = min(have.younger, younger)

    def settled_edges(self, made: Collection[Token]) -> list[Edge]:
        """made: all accesses of the function.  A group that only some of a block's threads can form (128 of 192) meets
        in code of its own; where there is none in between, all wait.  For threads at a stride that no barrier tells
        from others, all those wait that lie between them.
        """
        threads = self.context.overlap.threads
        edges = [e for e in self.edges.values() if self.release_acquire.counts(e, made)]
        for edge in edges:
            p = edge.participants
            if p.stride is not None and not meets_alone(p):
                edge.narrow, p = p, p.contiguous
                edge.participants = BLOCK1 if p.n == threads else p
            if threads and p.level is Level.THREAD and threads % p.shape.extent:
                here = (gap.place for gap in self.gaps.values() if edge.candidates >> gap.number & 1)
                if not any(place.privilege.at_least(p) and place.holds(p) for place in here):
                    edge.participants = BLOCK1
        return edges


def _loaded_twice(t: Token, b: Token, name: str) -> SnapError:
    return SnapError(
        Diagnostic(
            "SNAP020",
            f"`{name}` is loaded again before any thread has waited for it",
            b.span,
            "loaded here",
            (Label(t.span, "loaded here before"),) if t.span != b.span else (),
            note="TMA loads complete in any order, so either of the two may be the last",
            help="use it between the two, or load into parts that the compiler can tell apart",
        )
    )
