"""The walk over a function: what has happened, on every path, before each statement.

Input: a function's context (context.py).  Output: what the visitor makes of it: edges (edges.py), or how much is in
flight (groups.py).  A forward walk, calls entered, carries *tokens*: accesses that happened and may still be in
conflict with what follows, each with the gaps between statements that every path since has crossed (paths.py).  The
visitor is told of each access, and compares it with these.  How paths branch, meet and leave is `ir/dataflow.py`'s; the
way around a loop is this module's: it is walked again with what came around and is new, alone, until nothing is; what
an iteration computed is renamed when it ends.  Only loops that make the first fills of buffers taken in turn are walked
iteration by iteration.  Non-goals: which pairs are in conflict (conflict.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.values import Frame, called, is_integer
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.dataflow import Forward, Round
from snap._compiler.ir.effects import Kind
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.operations import COLLECTIVES, SyncHalf
from snap._compiler.ir.types import BLOCK1, CLUSTER1, THREAD1
from snap._compiler.ir.walk import loop_values
from snap._compiler.sync.conflicts.accesses import Accesses
from snap._compiler.sync.conflicts.context import Context, context_of
from snap._compiler.sync.conflicts.edges import Finder, Visitor
from snap._compiler.sync.conflicts.loops import few
from snap._compiler.sync.conflicts.paths import Paths, one_iteration_older, together
from snap._compiler.sync.conflicts.place import REGIONS, Moment, Where, into_roles, region
from snap._compiler.sync.conflicts.tokens import (
    ACQUIRED,
    Edge,
    Gap,
    GapKey,
    GapKind,
    Here,
    ObjectKey,
    Said,
    Token,
    altered,
    keeps_block,
)
from snap._compiler.sync.conflicts.trivial import MOST_LOOPS, nested_too_deep, orders_nothing
from snap._compiler.sync.conflicts.variables import Told, Variables, Written
from snap._compiler.sync.pipelines.lower import Pipelined
from snap.record import record, replace

_NOT_TOLD: Any = object()
_BEFORE, _AFTER, _ = GapKind


@record
class Graph:
    """Hold what a function's accesses make: the pairs that must be ordered, and where that can be done."""

    context: Context
    edges: list[Edge]
    gaps: dict[GapKey, Gap]
    told: Told


def graph_of(function: synced.Function, pipelined: Pipelined | None = None) -> Graph:
    context, told = context_of(function, pipelined), Told()
    gaps: dict[GapKey, Gap] = {}
    finder = Finder(context, gaps)
    if not orders_nothing(function):
        FlowWalk(context, finder, gaps, told).run()
    return Graph(context, finder.settled_edges(told.tokens.values()), gaps, told)


class FlowWalk(Forward[Paths]):
    """first   whether it is the first over this function: what variables are, it finds out, and later ones do not ask
    around  whether a loop is walked again, with what came around: all accesses in it have been made
    ages    loops whose iterations are counted for what was there before
    path    the statements we are in
    opened  of the loops, and of the functions, we are in: how many scopes and statements were open where each began
    closed  how many instructions of the user's own we are in: there is no place for a barrier within their text
    """

    def __init__(self, context: Context, visitor: Visitor, gaps: dict[GapKey, Gap], told: Told, first: bool = True):
        super().__init__()
        self.context, self.visitor, self.gaps, self.told, self.first = context, visitor, gaps, told, first
        self.variables = Variables(context, told)
        self.accesses = Accesses(context, self.variables, visitor, first)
        self.where = Where((), context.start)
        self.handed_on = context.pipelined.passes.keys() | context.pipelined.lands.keys()
        self.around = False
        self.ages: set[int] = set()
        self.path: list[Here] = []
        self.opened: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [(0, 0)])
        self.closed = int(bool(context.function.text))

    def run(self) -> None:
        function = self.context.function
        end = self.body(function.body, Paths({}, self.variables.parameters(function)))
        if end is not None and function.body:
            self._exit(end, function.body[-1])

    def _exit(self, paths: Paths, last: ir.Stmt) -> None:
        """A kernel ends, here or at a `return` on the way.  Shared memory goes with its block: nothing that the block
        or another one has begun there may still be in flight (docs/language.md, "The end of a block").
        """
        function = self.context.function
        if not function.kernel:
            return
        for obj, held in paths.tokens.items():
            for t in held.values():
                site = (self.where.frame, last.number, Said.ENDED)
                b = Token(site, obj, Kind.WRITE, (), t.footprint, t.name, last.span, 0)
                if keeps_block(t):
                    self.visitor.pair(t, b, THREAD1, paths.since(t))
                elif t.remote and not (t.ordered == CLUSTER1 and not t.in_flight):
                    self.visitor.pair(t, b, CLUSTER1, paths.since(t))

    # ---- statements -------------------------------------------------------------------------------------------------

    def _cross(self, kind: GapKind, s: ir.Stmt, paths: Paths) -> None:
        if self.closed:
            return
        where = self.where
        here = (where.frame, kind, s.number)
        gap = self.gaps.get(here)
        if gap is None:
            depth = len(where.loops)
            gap = self.gaps[here] = Gap(
                len(self.gaps), here, where.at.place, depth - where.once, depth, self.context.parted(here)
            )
        paths.crossed |= 1 << gap.number
        self.visitor.last_gap = gap.number
        if gap.number in self.visitor.barriers:
            self.visitor.crossing(gap, paths)

    def before(self, s: ir.Stmt, paths: Paths) -> Paths:
        self._cross(_BEFORE, s, paths)
        return paths

    def after(self, body: ir.Body, paths: Paths) -> Paths:
        self._cross(_AFTER, body[-1], paths)
        return paths

    def statement(self, s: ir.Stmt, paths: Paths) -> Paths | None:
        """Walked again, a statement is passed over where nothing that came around reaches it; what variables are after
        it, the first walk told.
        """
        computed = self.context.computes(s)
        if computed is not None:
            return self._computed(s, paths) if is_integer(computed.type) else paths
        where, crossed = self.where, paths.crossed
        result: Paths | None = paths
        here = ((where.frame, s.number), where.unrolled)  # `where.here(s)`: a call fewer, for every statement
        if self._reaches(s, paths, here):
            self.path.append(here[0])
            if s.number in self.handed_on:
                self._handed_on(s, paths)
            result = super().statement(s, paths)
            if result is not None:
                self.visitor.ended(self.path[-1:], result)
                if self.first and result.crossed != crossed and here not in self.told.gained:
                    self.told.gained[here] = result.crossed & ~crossed
            self.path.pop()
        known = self.told.after.get(here, _NOT_TOLD)
        if known is not _NOT_TOLD:
            if known is None:
                return None
            if result is None:  # the ways out that the statement has were not gone: nothing came there
                result = Paths({}, known, crossed)
            result.share(known)
        elif self.first and (where.loops or result is None):
            self.told.after[here] = None if result is None else result.shared()
        return result

    def _computed(self, s: ir.Stmt, paths: Paths) -> Paths:
        """A statement that gives an integer a value, and does nothing else."""
        here = self.where.here(s)
        known = self.told.after.get(here)
        if known is not None:
            paths.share(known)
        elif self.first:
            if not self.around:
                self.variables.update(self._moment(s, paths))
            if self.where.loops:
                self.told.after[here] = paths.shared()
        return paths

    def _reaches(self, s: ir.Stmt, paths: Paths, here: Written) -> bool:
        """Return whether there is something to see in a statement; if not, it is passed over."""
        if self.first and not self.around or self.visitor.concerned(s, here[0][0], paths):
            return True
        paths.crossed |= self.told.gained.get(here, 0)
        return False

    def transfer(self, s: ir.Stmt, paths: Paths) -> Paths | None:
        step = _STEPS.get(type(s), FlowWalk._plain)
        return paths if step is None else step(self, s, paths)

    def _evaluated(self, s: ir.If | ir.For | ir.While | ir.Return, paths: Paths) -> Paths:
        if isinstance(s, ir.While):
            self._cross(GapKind.CONDITION, s, paths)
        self.accesses.evaluate(self._moment(s, paths))
        return paths

    def _arrived(self, s: synced.MBarrierWait, paths: Paths) -> Paths:
        for uid in self.context.pipelined.awaited.get(s.barrier.uid, ()):
            self.accesses.arrived((self.where.frame, uid), s, self._moment(s, paths))
        return paths

    def behind(self, s: ir.Stmt, paths: Paths) -> Paths:
        if isinstance(s, (ir.Partition, ir.Claim)):
            self._close(self.where.frame, s, paths)
        return paths

    def _moment(self, s: ir.Stmt, paths: Paths) -> Moment:
        return Moment(s, self.where, paths, self.around)

    def _plain(self, s: ir.Stmt, paths: Paths) -> Paths:
        m = self._moment(s, paths)
        self.accesses.evaluate(m)
        if isinstance(s, ir.Atomic):
            self.visitor.atomic(m)
        if isinstance(s, ir.Collective) and COLLECTIVES[s.op].barrier:
            self._met_by_hand(s, paths)
        elif self.first and (not self.where.loops or self.where.here(s) not in self.told.after):
            self.variables.update(m)
        return paths

    # ---- where we are -----------------------------------------------------------------------------------------------

    def inside(self, s: ir.Stmt, k: int, body: ir.Body, paths: Paths) -> Paths | None:
        """Enter the k-th body of a statement; where that is, is the same each time."""
        outer = self.where
        asked = (outer.here(s), k)
        found = self.told.inside.get(asked)
        if found is None:
            found = self.told.inside[asked] = self._inside(s, k, paths)
        self.where = found
        if isinstance(s, REGIONS):
            case = isinstance(s, ir.Split)
            new = self.visitor.concurrent.enters(region(s, k), case)
            result = self.body(body, paths)
            self.visitor.concurrent.leaves(new, case)
        else:
            result = self.body(body, paths)
        self.where = outer
        return result

    def _inside(self, s: ir.Stmt, k: int, paths: Paths) -> Where:
        where = self.where
        match s:
            case ir.If():
                return where.knowing(self.variables.facts(s.cond, k == 0, where, paths))
            case ir.While() if k == 1:
                return where.knowing(self.variables.facts(s.cond, True, where, paths))
            case ir.For() if where.here(s) in self.told.top:
                return where.knowing(self.told.top[where.here(s)][1])
            case ir.Group():
                return where.grouped(s)
            case ir.Split():
                return where.case(s, s.cases[k])
            case ir.Partition() | ir.Claim():
                return replace(where, scopes=(*where.scopes, (where.frame, s)))
            case ir.Call():
                return where.called(s, called(where.frame, s.number))
            case _:
                return where

    # ---- mbarriers, waits, commits ----------------------------------------------------------------------------------

    def _handed_on(self, s: ir.Stmt, paths: Paths) -> None:
        """Arrays that mbarriers hand on at this statement, and those whose loads have come (lower.py)."""
        pipelined, frame = self.context.pipelined, self.where.frame
        for uid in pipelined.passes.get(s.number, ()):
            paths.hand_on((frame, uid), uid in pipelined.released, uid in self.context.reused)
        for uid in pipelined.lands.get(s.number, ()):
            held = paths.tokens.get((frame, uid), {})
            paths.put((frame, uid), {k: t for k, t in held.items() if not t.loading})

    def _waited_or_committed(self, s: synced.AsyncCommit | synced.Sync, paths: Paths) -> Paths:
        role = self.where.role
        if isinstance(s, synced.AsyncCommit):
            # by those who issued it
            mine = lambda t: t.role == role and (t.issuer is None or s.place is None or t.issuer == s.place.privilege)  # noqa: E731
            more = lambda t: altered(t, commits=t.commits + 1, early=paths.since(t)) if mine(t) else t  # noqa: E731
            paths.each_in_flight(more, Wait.all_of(s.engine))
        elif s.point.uid not in self.context.unsettled:
            for wait, younger in s.point.waits:
                paths.waited(wait, younger, role, (self.where.frame, s.number))
        return paths

    def _met_by_hand(self, s: ir.Collective, paths: Paths) -> None:
        """A barrier of the program's: tokens are ordered for that group.  Of one in two parts, those that were there
        when it arrived.
        """
        group, barrier = s.requires, s.attr("barrier", 0)

        def met(t: Token) -> Token:
            return altered(t, ordered=group) if t.ordered is None or group.at_least(t.ordered) else t

        def arrived(t: Token) -> Token:
            return altered(t, announced=t.announced | {barrier})

        def waited(t: Token) -> Token:
            return met(altered(t, announced=t.announced - {barrier})) if barrier in t.announced else t

        change = {SyncHalf.BOTH: met, SyncHalf.ARRIVE: arrived, SyncHalf.WAIT: waited}[COLLECTIVES[s.op].half]
        for obj in paths.tokens:
            paths.regrouped(obj, change)

    # ---- memory that comes and goes ---------------------------------------------------------------------------------

    def _declared(self, s: ir.DeclareShared, paths: Paths) -> Paths:
        obj = (self.where.frame, s.obj.uid)
        if s.obj.uid not in self.context.pipelined.counted_on:
            paths.recount(obj, s.obj.depth)
        self._reuse(obj, s, paths)
        return paths

    def _reuse(self, obj: ObjectKey, s: ir.DeclareShared, paths: Paths) -> None:
        """Bytes that another array held a moment ago: everything done to it comes first.  Of a cluster, if other
        blocks have been there, or will write there.  What was done to bytes that this array does not take, or must yet
        be fenced or known to other blocks when a third one takes them, is not over."""
        context = self.context
        ranges = context.declared.ranges
        low, high = ranges[obj]
        units = s.obj.uid in context.background
        for other, held in paths.tokens.items():
            if other == obj or other not in ranges or ranges[other][1] <= low or high <= ranges[other][0]:
                continue
            whole = low <= ranges[other][0] and ranges[other][1] <= high
            kept: dict = {}
            for t in held.values():
                shared_by = CLUSTER1 if s.obj.uid in context.reached or t.remote else BLOCK1
                apart = t.in_flight or t.ordered is None or not t.ordered.at_least(shared_by)
                if not t.loading and (apart or t.by_threads and units):  # who uses a load waits
                    b = Token(
                        (self.where.frame, s.number, Said.REPLACED),
                        obj,
                        Kind.WRITE,
                        (),
                        t.footprint,
                        s.obj.name,
                        context.first_uses.get(s.obj.uid, s.span),
                        paths.crossed,
                        engine=Engine.BOXES if units else Engine.THREADS,
                    )
                    self.visitor.pair(t, b, shared_by, paths.since(t))
                unfenced = t.by_threads and bool(context.background) and not units
                if not whole or unfenced or context.reached and shared_by == BLOCK1:
                    now = altered(t, ordered=shared_by) if apart and not t.in_flight else t
                    kept[now.key] = now
            paths.put(other, kept)

    def _opened(self, s: ir.Partition | ir.Claim, paths: Paths) -> Paths:
        if isinstance(s, ir.Partition) and s.counted and s.handle.obj.uid not in self.context.nested:
            paths.next_fill(self.context.declared.objects[self.where.frame, s.handle.obj.uid], s.handle.obj.depth)
        return paths

    def _close(self, frame: Frame, scope: ir.Partition | ir.Claim, paths: Paths) -> None:
        """A scope ends: its accesses become its base's."""
        declared = self.context.declared
        name = declared.names[frame, scope.handle.uid][0]

        def outside(t: Token) -> Token:
            if name not in t.names:
                return t
            disjoint = (*t.disjoint, name) if scope.handle.disjoint else t.disjoint
            return altered(t, names=t.names[t.names.index(name) + 1 :], disjoint=disjoint)

        obj = declared.objects[frame, scope.handle.obj.uid]
        if obj in paths.tokens:
            paths.regrouped(obj, outside)
        less = lambda t: altered(t, names=tuple(n for n in t.names if n is not name)) if name in t.names else t  # noqa: E731
        for acquired in paths.tokens.keys() & ACQUIRED.values():
            paths.regrouped(acquired, less)

    # ---- branches ---------------------------------------------------------------------------------------------------

    def fork(self, paths: Paths) -> Paths:
        return paths.copy()

    def join(self, paths: Paths, other: Paths, s: ir.Stmt) -> Paths:
        paths.absorb(other)
        if self.first and not self.around:  # else the first walk has told
            self.variables.join(paths, other, self.where, s.number)
        return paths

    def out_of(self, s: ir.Break | ir.Continue | ir.Return, paths: Paths) -> Paths:
        """Out of the scopes and statements opened since."""
        scopes, statements = self.opened[isinstance(s, ir.Return)][-1]
        left = paths.copy()
        for frame, scope in reversed(self.where.scopes[scopes:]):
            self._close(frame, scope, left)
        self.visitor.ended(self.path[statements:], left)
        if isinstance(s, ir.Return) and not self.where.frame:
            self._exit(left, s)
        return left

    def split(self, s: ir.Split, paths: Paths) -> Paths | None:
        ends: list[Paths | None] = [paths]  # the units beyond the last case
        before = self.visitor.concurrent.cases()
        ends += [self.inside(s, k, case.body, paths.copy()) for k, case in enumerate(s.cases)]
        self.visitor.concurrent.behind_cases(before)
        if into_roles(s):  # what a role did before is as its own threads know it, who have come through its case
            for case, end in zip(s.cases, ends[1:]):
                if end is not None and not case.rest:
                    for other in ends:
                        if other is not None and other is not end:
                            other.without_role((case.offset, case.size))
        return self.joined(ends, s)

    def _call(self, s: ir.Call, paths: Paths) -> Paths | None:
        m = self._moment(s, paths)
        self.accesses.evaluate(m)
        if self.first:
            self.variables.bind(s, called(self.where.frame, s.number), m)
        self.opened[1].append((len(self.where.scopes), len(self.path)))
        self.closed += bool(s.function.text)
        result = self.called(s, paths)
        self.closed -= bool(s.function.text)
        self.opened[1].pop()
        if self.first and result is not None and isinstance(s.target, ir.VarTarget):
            self.variables.store(s.target.var, None, self._moment(s, result))
        return result

    # ---- loops ------------------------------------------------------------------------------------------------------

    def loop(self, s: ir.While | ir.For, paths: Paths) -> Paths | None:
        if isinstance(s, ir.For):
            self.transfer(s, paths)
        loop = self.context.declared.loops[self.where.frame, s.number]
        if self.context.loop(s).copies_in_turn:
            values = few(s)
            if isinstance(s, ir.For) and values is not None:
                return self._one_by_one(s, values, paths, loop)
            self.ages.add(loop)
            paths.begin(loop)
        if len(self.where.loops) == MOST_LOOPS:
            raise nested_too_deep(s)
        out = self._until_nothing_new(s, paths, loop)
        if out is not None:
            out.forget_ages(loop)
        return out

    # The first walk makes the accesses of the loop, and all that follows from them.  What it brings back to the top
    # that has not been there before goes around once more, alone: accesses are in conflict pair by pair, so that
    # others would only be found in conflict again. Where a copy has come by a new way it goes around as what all
    # ways have in common (`absorb`): that decides which barrier waits for it.
    def _until_nothing_new(self, s: ir.While | ir.For, head: Paths, loop: int) -> Paths | None:
        entry_known, outside, first = head.shared(), self.where, not self.around
        values = loop_values(s)
        once = outside.once + (values is not None and len(values) <= 1)
        inside = replace(outside, loops=(*outside.loops, loop), once=once)
        top, _ = self.variables.at_top(s, inside, outside, head)
        only_reads = isinstance(s, ir.For) and not self.context.writes(s)
        after: Paths | None = None
        ends: list[Paths] = []
        left: list[Paths] = []
        begun = self.visitor.concurrent.count()
        news = head
        while True:
            current = news.copy()
            current.share(top)
            found = self._round(s, current, inside)
            if isinstance(s, ir.While):
                after = self.joined([after, found.test], s)
            left += found.breaks
            news = Paths({}, entry_known, head.crossed)
            for end in found.back:
                one_iteration_older(end, loop, self.context.values, self.context.memo, loop in self.ages)
                head.absorb(end, news)
                ends.append(end)
            if not news.tokens or only_reads:  # then nothing in there can be in conflict with another iteration
                break
            if first and not self.around:
                self.visitor.goes_around(begun)
            self.around = True
        self.around = not first
        if isinstance(s, ir.For):
            after = head
            if values:  # it is certain that it runs: what comes past it has gone through its body, and crossed its gaps
                after = together(ends, head)
            after.share(top)
        return self.joined([after, *left], s)

    def _round(self, s: ir.While | ir.For, top: Paths, inside: Where) -> Round[Paths]:
        outside, self.where = self.where, inside
        self.opened[0].append((len(outside.scopes), len(self.path)))
        found = self.round(s, top)
        self.opened[0].pop()
        self.where = outside
        return found

    # As if it were written out: so each fill is told from the others, and how many copies have been begun since each.
    def _one_by_one(self, s: ir.For, values: range, paths: Paths, loop: int) -> Paths | None:
        outside, frame = self.where, self.where.frame
        written = [(frame, uid) for uid in self.context.loop(s).assigned if (frame, uid) in paths.known]
        entry_known, crossed = paths.shared(), paths.crossed
        left: list[Paths] = []
        current = paths
        for trip in range(len(values) + 1):
            inside = replace(outside, loops=(*outside.loops, loop), unrolled=(*outside.unrolled, trip))
            if self.first:
                self.variables.at(inside, current)
                current.learn({variable: self.variables.unknown_at_top(variable, loop) for variable in written})
                current.learn(self.variables.counted(entry_known, s, frame, forms.number(trip)))
            if trip == len(values):
                break
            if self.first:
                current.learn({(frame, s.var.uid): forms.number(values[trip])})
            found = self._round(s, current, inside)
            left += found.breaks
            if not found.back:
                return self.joined(left, s)
            current = Paths({}, entry_known, crossed)
            for end in found.back:
                one_iteration_older(end, loop, self.context.values, self.context.memo, counted=False)
                current.absorb(end)
        return self.joined([current, *left], s)


# By class: what a statement does itself.  None: nothing; whatever is not here is an access, or computes (`_plain`).
_STEPS: dict[type, Callable[[FlowWalk, Any, Paths], Paths | None] | None] = {
    **dict.fromkeys((ir.Break, ir.Continue, ir.Group, ir.Split, synced.Elect)),
    **dict.fromkeys((ir.If, ir.For, ir.While, ir.Return), FlowWalk._evaluated),
    **dict.fromkeys((ir.Partition, ir.Claim), FlowWalk._opened),
    **dict.fromkeys((synced.AsyncCommit, synced.Sync), FlowWalk._waited_or_committed),
    ir.Call: FlowWalk._call,
    ir.DeclareShared: FlowWalk._declared,
    synced.MBarrierWait: FlowWalk._arrived,
}
