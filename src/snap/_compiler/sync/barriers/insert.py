"""Put the chosen barriers into the text.

Input: a typed function and marks by gap.  Output: the function with `Sync` statements.  Gaps inside a callee belong to
one call of it: calls that need the same barriers share one synchronized callee, others get one of their own.
"""

from __future__ import annotations

from snap._compiler.analysis.linear.values import Frame, called
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.points import MOST_TWINS
from snap._compiler.ir.rewrite import changed, with_bodies
from snap._compiler.ir.types import Level
from snap._compiler.sync.barriers.cover import Mark
from snap._compiler.sync.barriers.groups import NONE, Duty
from snap._compiler.sync.barriers.numbers import NumberedGroups
from snap._compiler.sync.conflicts.tokens import AFTER, BEFORE, CONDITION, GapKey, GapKind


def insert_barriers(
    function: synced.Function,
    marks: dict[GapKey, list[Mark]],
    commits: frozenset[tuple[Frame, int]],
    duties: dict[GapKey, Duty],
    asked: NumberedGroups,
    numbers: Numbers,
) -> synced.Function:
    """asked: the numbers of named barriers that the program asks for."""
    return _Inserter(marks, commits, duties, asked, numbers).function(function, ())


class _Inserter:
    def __init__(
        self,
        marks: dict[GapKey, list[Mark]],
        commits: frozenset[tuple[Frame, int]],
        duties: dict[GapKey, Duty],
        asked: NumberedGroups,
        numbers: Numbers,
    ):
        self.marks, self.commits, self.duties, self.numbers = marks, commits, duties, numbers
        self.asked = asked
        self.halves: dict[tuple[Frame, int], synced.SyncPoint] = {}
        self.variants: dict[tuple, synced.Function] = {}
        self.frame: Frame = ()
        self.path: list[
            tuple[Frame, int]
        ] = []  # the statements we are in, and how many of them are around the innermost loop's body
        self.loop = 0

    def function(self, function: synced.Function, frame: Frame) -> synced.Function:
        inside = frozenset(
            (
                key[0][len(frame) :],
                *key[1:],
                m.participants,
                m.kind,
                m.part,
                m.only,
                m.number,
                m.threads,
                self.duties.get(key),
            )
            for key, found in self.marks.items()
            for m in found
            if key[0][: len(frame)] == frame
        ) | {(at[len(frame) :], s) for at, s in self.commits if at[: len(frame)] == frame}
        variant = self.variants.get((function.uid, inside))
        if variant is None:
            body = function.body
            others = [marked for uid, marked in self.variants if uid == function.uid]
            if inside or self.asked:
                outer, self.frame, self.path, self.loop = (self.frame, self.path, self.loop), frame, [], 0
                body = self.body(body)
                self.frame, self.path, self.loop = outer
            twins = len(others)
            variant = self.variants[(function.uid, inside)] = changed(
                function,
                uid=-(function.uid * MOST_TWINS + twins) if twins else function.uid,
                body=self.numbers.copied(body) if others else body,
            )
        return variant

    def syncs(self, kind: GapKind, s: ir.Stmt) -> ir.Body:
        here = (self.frame, kind, s.number)
        if here not in self.marks:
            return ()
        made: list[ir.Stmt] = []
        for k, mark in enumerate(self.marks[here]):
            duty = self.duties.get(here, NONE) if k == 0 else NONE
            point = self.point(mark, duty, s)
            made.append(
                _for_some(point, mark, s) if mark.only else synced.Sync(point, mark.place, mark.part, span=s.span)
            )
        return self.numbers.given(made)

    def point(self, mark: Mark, duty: Duty, s: ir.Stmt) -> synced.SyncPoint:
        """Parts of one point have one."""
        if mark.pair and (self.frame, mark.pair) in self.halves:
            return self.halves[(self.frame, mark.pair)]
        point = synced.SyncPoint(
            self.numbers.new(),
            mark.kind,
            mark.participants,
            mark.object,
            mark.reason,
            mark.first,
            mark.second,
            duty.waits,
            duty.fence,
            number=mark.number,
            threads=mark.threads,
            arrivals=mark.arrivals,
            waiters=mark.waiters,
            span=mark.at or s.span,
        )
        if mark.pair:
            self.halves[(self.frame, mark.pair)] = point
        return point

    def body(self, body: ir.Body) -> ir.Body:
        out: list[ir.Stmt] = []
        for s in body:
            out += self.syncs(BEFORE, s)
            if isinstance(s, (ir.Break, ir.Continue, ir.Return)):
                out += self.commits_of(self.path[0 if isinstance(s, ir.Return) else self.loop :], s)
            self.path.append((self.frame, s.number))
            out.append(self.statement(s))
            out += self.commits_of([self.path.pop()], s)
            out += self.syncs(AFTER, s)
        return body if len(out) == len(body) and all(a is b for a, b in zip(out, body)) else self.numbers.given(out)

    def commits_of(self, ended: list[tuple[Frame, int]], s: ir.Stmt) -> list[synced.AsyncCommit]:
        return [synced.AsyncCommit(span=s.span) for here in ended if here in self.commits]

    def in_loop(self, body: ir.Body) -> ir.Body:
        outer, self.loop = self.loop, len(self.path)
        result = self.body(body)
        self.loop = outer
        return result

    def statement(self, s: ir.Stmt) -> ir.Stmt:
        match s:
            case ir.While():
                pre = self.body(s.pre)
                condition = self.syncs(CONDITION, s)
                return changed(s, pre=(*pre, *condition) if condition else pre, body=self.in_loop(s.body))
            case ir.For():
                return changed(s, body=self.in_loop(s.body))
            case ir.Collective("sync", group) if group in self.asked:
                return changed(s, attrs=(("number", self.asked[group]),))
            case ir.Call():
                return changed(s, function=self.function(synced.callee(s), called(self.frame, s.number)))
            case _:
                return with_bodies(s, self.body)


def _for_some(point: synced.SyncPoint, mark: Mark, s: ir.Stmt) -> ir.Split:
    """A part that only some of the threads take."""
    cases = []
    for low, high in mark.only:
        place = mark.place.sharded(Level.THREAD, low, high - low)
        cases.append(
            ir.Case(low, high - low, False, place, (synced.Sync(point, place, mark.part, span=s.span),), span=s.span)
        )
    return ir.Split(Level.THREAD, mark.place, tuple(cases), span=s.span)
