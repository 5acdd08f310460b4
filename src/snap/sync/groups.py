"""What a barrier must do besides: wait for groups of work in the background, and come before it.

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

from snap.analysis.overlap import Memo
from snap.analysis.values import Frame, called
from snap.ir import nodes as ir
from snap.ir import synced
from snap.ir.walk import bodies
from snap.sync.cover import Mark
from snap.sync.graph import Graph
from snap.sync.loops import copies_in_turn, few
from snap.sync.tokens import BACKGROUND, Edge, Gap, GapKey, Plan
from snap.sync.weave import Woven


@dataclass(frozen=True, slots=True)
class Duty:
    waits: tuple[tuple[str, int], ...] = ()
    fence: bool = False


NONE = Duty()


def plan_copies(
    function: synced.Function,
    edges: list[Edge],
    gaps: dict[GapKey, Gap],
    marks: dict[GapKey, list[Mark]],
    woven: Woven,
    memo: Memo,
) -> tuple[frozenset[tuple[Frame, int]], dict[GapKey, Duty]]:
    numbers = {gaps[key].number: key for key in marks}
    fences = _fences(edges, numbers, marks)
    copies = [e for e in edges if e.first.kind in "CS"]
    if not copies:
        return frozenset(), {key: Duty(fence=True) for key in fences}
    parents = _Parents(function)
    commits: set[tuple[Frame, int]] = set()
    for edge in copies:
        if edge.first.engine != "copy":
            continue
        for number, key in numbers.items():
            if edge.candidates >> number & 1:
                commits.add(parents.commit(edge.first.site, key))
    for site in parents.copies:  # a copy nobody waits for still belongs to a group
        commits.add(site) if not any(parents.contains(c, site) for c in commits) else None
    plan = Plan({n: [m.participants for m in marks[key]] for n, key in numbers.items()}, frozenset(commits), gaps)
    counting = Graph(function, plan, woven, memo)
    counting.run()
    waits: dict[GapKey, dict[str, int]] = {}
    for (n, engine), pending in counting.pending.items():
        waits.setdefault(numbers[n], {})[engine] = max(0, pending)
    return plan.commits, {
        key: Duty(tuple(sorted(waits.get(key, {}).items())), key in fences) for key in {*waits, *fences}
    }


# What threads did comes before what units that copy boxes and multiply tiles do only behind a fence between the two,
# before the barrier.
def _fences(edges: list[Edge], numbers: dict[int, GapKey], marks: dict[GapKey, list[Mark]]) -> set[GapKey]:
    found: set[GapKey] = set()
    for edge in edges:
        if edge.first.by_threads and edge.second.engine in BACKGROUND:
            serving = [
                key
                for n, key in sorted(numbers.items())
                if edge.candidates >> n & 1 and any(m.participants.at_least(edge.participants) for m in marks[key])
            ]
            if not any(key in found for key in serving):
                found.update(serving[-1:])
    return found


class _Parents:
    """Which statement stands in which, calls entered."""

    def __init__(self, function: synced.Function):
        self.above: dict[tuple[Frame, int], tuple[tuple[Frame, int], int] | None] = {}
        self.accesses: dict[tuple[Frame, int], tuple[Frame, int]] = {}
        self.copies: list[tuple[Frame, int]] = []
        self.turning: set[tuple[Frame, int]] = set()  # loops whose iterations are told apart
        self._enter((), function.body, None)

    def _enter(self, frame: Frame, body: ir.Body, above: tuple[tuple[Frame, int], int] | None) -> None:
        for s in body:
            here = (frame, s.number)
            self.above[here] = above
            if isinstance(s, ir.AsyncCopy):
                self.accesses[(frame, id(s.target))] = self.accesses[(frame, id(s.source))] = here
                self.copies.append(here)
            if few(s) is not None and copies_in_turn(s, {}):
                self.turning.add(here)
            for k, inner in enumerate(bodies(s)):
                self._enter(frame, inner, (here, k))
            if isinstance(s, ir.Call):
                self._enter(called(frame, s.number), s.function.body, (here, 0))

    def _path(self, here: tuple[Frame, int]) -> list[tuple[tuple[Frame, int], tuple | None]]:
        """The statement and those around it, each with the body it stands in."""
        path = []
        while True:
            above = self.above[here]
            path.append((here, above))
            if above is None:
                return path
            here = above[0]

    def commit(self, site: tuple[Frame, int, str], gap: GapKey) -> tuple[Frame, int]:
        """The statement that contains the copy, in the innermost body that contains the gap as well; of a loop that
        fills buffers in turn, the one in its body.
        """
        here = (gap[0], gap[2])
        around = {body for _, body in self._path(here)}
        if gap[1] == "condition":  # it stands inside of its loop
            around |= {(here, 0), (here, 1)}
        path = self._path(self.accesses[site[:2]])
        at = next(k for k, (_, body) in enumerate(path) if body in around)  # a function's body contains all of it
        while at and path[at][0] in self.turning:
            at -= 1
        return path[at][0]

    def contains(self, outer: tuple[Frame, int], inner: tuple[Frame, int]) -> bool:
        return any(statement == outer for statement, _ in self._path(inner))
