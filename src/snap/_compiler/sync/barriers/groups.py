"""Plan what a barrier must do besides: wait for groups of asynchronous work, and come before it.

Input: edges and the marks that order them.  Output: the statements after which this thread's copies are committed, and
the duties of each mark: how many younger groups of each engine may be in flight, and whether a fence must put what
threads did before what units that copy boxes and multiply tiles do.  A copy is committed in the body its barrier stands
in (or, if that body does not contain the copy, in the innermost that contains both), right after the statement that
contains it: on every path of that body, a `break` out of the statement included, so that the number of groups between a
copy and its barrier is known.  Where a loop's iterations fill buffers in turn, before the barrier's loop goes on with
them, each iteration commits its own: they are waited for one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from snap._compiler.analysis.linear.values import Frame, called
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import THREAD1, Privilege
from snap._compiler.ir.walk import bodies
from snap._compiler.sync.barriers.cover import Mark
from snap._compiler.sync.conflicts.conflict import fenced
from snap._compiler.sync.conflicts.edges import Visitor
from snap._compiler.sync.conflicts.graph import FlowWalk, Graph
from snap._compiler.sync.conflicts.loops import copies_in_turn, few
from snap._compiler.sync.conflicts.paths import Paths
from snap._compiler.sync.conflicts.place import Moment
from snap._compiler.sync.conflicts.tokens import (
    CONDITION,
    AccessKey,
    Edge,
    Gap,
    GapKey,
    Here,
    ObjectKey,
    Said,
    Token,
    altered,
    wait_for,
)

MANY = 1 << 30  # groups: more than are ever begun


@dataclass(frozen=True, slots=True)
class Duty:
    """Say what a gap's barriers wait for besides threads.  waits: for each kind of asynchronous work, how many of the
    youngest groups may stay in flight.  fence: whether what threads wrote is put before what TMA and tensor cores read.
    """

    waits: tuple[tuple[Wait, int], ...] = ()
    fence: bool = False


NONE = Duty()


def with_duties(marks: dict[GapKey, list[Mark]], duties: dict[GapKey, Duty]) -> dict[GapKey, list[Mark]]:
    """The marks without those at which each thread would wait for nothing, and fence nothing."""
    kept = {
        gap: [mark for mark in found if mark.kind is not PointKind.THREAD or duties.get(gap, NONE) != NONE]
        for gap, found in marks.items()
    }
    return {gap: found for gap, found in kept.items() if found}


def plan_copies(graph: Graph, marks: dict[GapKey, list[Mark]]) -> tuple[frozenset[Here], dict[GapKey, Duty]]:
    gaps = {graph.gaps[gap].number: gap for gap in marks}
    fences = _fences(graph.edges, gaps, marks)
    if not any(e.first.in_flight for e in graph.edges):
        return frozenset(), {gap: Duty(fence=True) for gap in fences}
    parents = _Parents(graph.context.function)
    commits = _commits(graph, gaps, parents)
    counting = parents.around([*commits, *((gap[0], gap[2]) for gap in marks)])
    counter = Counter(graph, {n: [m.participants for m in marks[gap]] for n, gap in gaps.items()}, commits, counting)
    FlowWalk(graph.context, counter, graph.gaps, graph.told, first=False).run()
    waits: dict[GapKey, dict[Wait, int]] = {}
    for (n, wait), younger in counter.younger.items():
        waits.setdefault(gaps[n], {})[wait] = max(0, younger)
    return commits, {gap: Duty(_in_order(waits.get(gap, {})), gap in fences) for gap in {*waits, *fences}}


def _in_order(waits: dict[Wait, int]) -> tuple[tuple[Wait, int], ...]:
    return tuple(sorted(waits.items(), key=lambda one: one[0].value))


def _commits(graph: Graph, gaps: dict[int, GapKey], parents: _Parents) -> frozenset[Here]:
    """The statements after which copies are committed."""
    commits: set[Here] = set()
    for edge in graph.edges:
        if edge.first.engine is Engine.COPIES and edge.second.site[2] is not Said.ENDED:
            commits |= {parents.commit(edge.first.site, gap) for n, gap in gaps.items() if edge.candidates >> n & 1}
    for site in parents.copies:  # a copy that only the block's end waits for belongs to a group, too
        if not any(parents.contains(c, site) for c in commits):
            commits.add(site)
    return frozenset(commits)


# What threads did comes before what units that copy boxes and multiply tiles do only behind a fence between the two,
# before the barrier.
def _fences(edges: list[Edge], gaps: dict[int, GapKey], marks: dict[GapKey, list[Mark]]) -> set[GapKey]:
    found: set[GapKey] = set()
    for edge in edges:
        if fenced(edge.first, edge.second):
            serving = [
                gap
                for n, gap in sorted(gaps.items())
                if edge.candidates >> n & 1 and any(m.participants.at_least(edge.participants) for m in marks[gap])
            ]
            if not any(gap in found for gap in serving):
                found.update(serving[-1:])
    return found


class Counter(Visitor):
    """Counts, at the barriers that are chosen, the groups that were begun since each that is waited for there.

    Nothing but work in flight, and who has waited for loads, is remembered.  Of each it is known how many groups were
    committed since, and how many there were at each barrier crossed since.  counting: the statements in which there is
    a barrier or a commit.
    """

    def __init__(
        self, graph: Graph, barriers: dict[int, list[Privilege]], commits: frozenset[Here], counting: set[Here]
    ):
        super().__init__(graph.context, graph.gaps)
        self.barriers, self.commits, self.counting = barriers, commits, counting
        self.depth = {gap.number: gap.depth for gap in graph.gaps.values()}
        self.handed = {(e.first.site, e.second.site) for e in graph.edges}
        self.younger: dict[tuple[int, Wait], int] = {}  # by gap: the fewest on any path, of what is waited for there

    def crossing(self, gap: Gap, paths: Paths) -> None:
        if gap.number in self.barriers:
            paths.each_in_flight(lambda t: altered(t, waited={**t.waited, gap.number: t.commits}))

    def ended(self, statements: list[Here], paths: Paths) -> None:
        """After some of them copies are committed."""
        more = sum(here in self.commits for here in statements)
        if more:
            paths.each_in_flight(lambda t: altered(t, commits=t.commits + more), Wait.COPIES)

    def concerned(self, s: ir.Stmt, frame: Frame, paths: Paths) -> bool:
        """Barriers and commits inside of a statement count what is in flight."""
        if self.touching.of(frame, s).begins or self.touching.concerned(frame, s, paths.tokens):
            return True
        return (frame, s.number) in self.counting and any(paths.tokens.values())

    def wants(self, obj: ObjectKey, engine: Engine, m: Moment) -> bool:
        return bool(m.paths.tokens.get(obj)) or not m.around and engine is not Engine.THREADS

    def access(self, b: Token, m: Moment, stays: bool) -> None:
        self.compare(b, m)
        if stays and b.in_flight:
            self.happened(b, m)

    def waited(self, t: Token, m: Moment) -> None:
        """A product may show later that all have waited: then that is in flight, too."""
        self.happened(t, m)

    def pair(self, a: Token, b: Token, need: Privilege, crossed: int, unless: tuple[ObjectKey, ...] = ()) -> None:
        """Choose which barrier waits for a copy: of those that every path from it has crossed, with a group that is
        large enough, the one with most younger groups; where only the kernel's end asks for that, one that waits for
        such copies anyway.
        """
        if not a.in_flight or b.site[2] is Said.RELEASED and (a.site, b.site) not in self.handed:
            return
        alone = need == THREAD1 and a.waits_alone  # such waits have been placed for themselves
        serves = (lambda p: p == THREAD1) if alone else (lambda p: p.at_least(need))
        enough = [gap for gap in a.waited if crossed >> gap & 1 and any(serves(p) for p in self.barriers[gap])]
        if enough:
            wait, ends = wait_for(a), b.site[2] is Said.ENDED
            if ends and a.engine is Engine.COPIES:
                if any(self.younger.get((gap, wait), MANY) <= a.waited[gap] for gap in enough):
                    return  # it is waited for in any case
                gap = max(enough, key=lambda gap: (-self.depth[gap], gap))
            else:
                gap = max(enough, key=lambda gap: (a.waited[gap], ends and (gap, wait) in self.younger, gap))
            self.younger[gap, wait] = min(a.waited[gap], self.younger.get((gap, wait), a.waited[gap]))


class _Parents:
    """Find which statement is in which, calls entered."""

    def __init__(self, function: synced.Function):
        self.above: dict[Here, tuple[Here, int] | None] = {}
        self.copies: list[Here] = []
        self.turning: set[Here] = set()  # loops whose iterations are told apart
        self._enter((), function.body, None)

    def _enter(self, frame: Frame, body: ir.Body, above: tuple[Here, int] | None) -> None:
        for s in body:
            here = (frame, s.number)
            self.above[here] = above
            if isinstance(s, ir.AsyncCopy):
                self.copies.append(here)
            if isinstance(s, ir.For) and few(s) is not None and copies_in_turn(s, ()):
                self.turning.add(here)
            for k, inner in enumerate(bodies(s)):
                self._enter(frame, inner, (here, k))
            if isinstance(s, ir.Call):
                self._enter(called(frame, s.number), s.function.body, (here, 0))

    def _path(self, here: Here) -> list[tuple[Here, tuple | None]]:
        """The statement and those around it, each with the body it stands in."""
        path = []
        while True:
            above = self.above[here]
            path.append((here, above))
            if above is None:
                return path
            here = above[0]

    def commit(self, site: AccessKey, gap: GapKey) -> Here:
        """The statement that contains the copy, in the innermost body that contains the gap as well; of a loop that
        fills buffers in turn, the one in its body.
        """
        here = (gap[0], gap[2])
        around = {body for _, body in self._path(here)}
        if gap[1] == CONDITION:  # it stands inside of its loop
            around |= {(here, 0), (here, 1)}
        path = self._path(site[:2])
        at = next(k for k, (_, body) in enumerate(path) if body in around)  # a function's body contains all of it
        while at and path[at][0] in self.turning:
            at -= 1
        return path[at][0]

    def around(self, statements: list[Here]) -> set[Here]:
        """The statements, and all that they stand in."""
        return {here for s in statements for here, _ in self._path(s)}

    def contains(self, outer: Here, inner: Here) -> bool:
        return any(statement == outer for statement, _ in self._path(inner))
