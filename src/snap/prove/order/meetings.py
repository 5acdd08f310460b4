"""Barriers, commits, waits and fences: who knows of earlier accesses behind them, and who never reaches one.

Input: synchronizing statements, as the walk comes to them.  Output: the states of accesses behind us, changed; barriers
that some threads never reach (`Stuck`).  Invariant: a statement means what the seeded machine makes of it
(`machine/source/asynchronous.py`).  Non-goals: mbarriers (`order/mbarriers.py`).
"""

from __future__ import annotations

from functools import partial

from snap._compiler.analysis.uniform import differs
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.halves import half_of
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.strides import NUMBERS
from snap._compiler.ir.synced import WHOLE, PointKind, SyncHalf, meets
from snap._compiler.ir.types import BLOCK1, CLUSTER1, Level, Privilege
from snap.diag.span import Span
from snap.prove.order.outline import bits
from snap.prove.order.point import WalkPoint
from snap.prove.order.reach import CLUSTER, GRID, State
from snap.prove.order.reading import TooMuch
from snap.prove.order.sites import OrderSite
from snap.record import record


@record
class Stuck:
    """Name a barrier or wait that may never be passed."""

    span: Span
    name: str
    why: str


class Meetings:
    """parted: of barriers whose arrival and wait are two statements, by point: the statements, who executes each, and
    what decides about the way there.
    """

    def __init__(self, here: WalkPoint):
        self.here, self.threads = here, here.threads
        self.stuck: dict[tuple, Stuck] = {}
        self.parted: dict[tuple, dict[tuple, tuple[synced.Sync, int, tuple]]] = {}

    def hang(self, s: ir.Stmt, name: str, why: str) -> None:
        self.stuck.setdefault((s.span, why), Stuck(s.span, name, why))

    def together(self, p: Privilege, s: ir.Stmt, name: str) -> None:
        """Note it where some threads of a unit of p may come here, and others may not."""
        for exprs in self.here.conditions:
            if differs(p, self.here.ranges, *exprs) is not None:
                self.hang(s, name, f"threads of {p} may disagree about whether they come here")

    def act(self, s: ir.Stmt) -> None:
        match s:
            case synced.AsyncCommit(engine):
                self.commit(engine, s)
            case synced.Sync():
                self.sync(s)
            case ir.Collective() if half_of(s) is not SyncHalf.BOTH:
                self.by_hand(s, half_of(s))
            case ir.Collective() if COLLECTIVES[s.op].barrier:
                self.barrier(meets(s.requires), s.requires, s, s.op)

    def commit(self, engine: Engine, s: synced.AsyncCommit) -> None:
        here, active = self.here, self.here.active
        if engine is Engine.BOXES and s.place is not None:
            here.active, _ = here.issuers(s.place)
        here.change(lambda site, st: st.commit(here.acting(site)) if site.line.commits is engine else st)
        here.active = active

    def waits(self, point: synced.SyncPoint) -> None:
        for engine, left in point.waits:
            self.here.change(partial(self._waited, engine, left))

    def _waited(self, engine: Wait, left: int, site: OrderSite, st: State) -> State:
        if engine not in site.line.waits:
            return st
        return st.wait(self.here.acting(site), left, site.line, self.threads.warpgroups)

    def fences(self) -> None:
        self.here.change(lambda site, st: st.fence(self.here.acting(site)))

    def sync(self, s: synced.Sync) -> None:
        point = s.point
        if s.part is not synced.SyncHalf.WAIT:
            self.waits(point)
            if point.fence:
                self.fences()
        if point.kind is PointKind.THREAD:
            return
        if s.part is synced.SyncHalf.BOTH:
            self.barrier(point.kind, point.participants, s, point.object)
        else:
            self.half(s)

    def barrier(self, kind: PointKind, p: Privilege, s: ir.Stmt, name: str) -> None:
        here, threads = self.here, self.threads
        if kind not in WHOLE:
            groups = self.groups(p, s, name)
            if p.n >= threads.unit:
                self.together(p if p.level is Level.THREAD else BLOCK1, s, name)
                here.change(lambda site, st: st.met(groups))
            return
        if here.active != threads.everyone:
            self.hang(s, name, "not all threads of the block come to this barrier")
        self.together(WHOLE[kind], s, name)
        if kind is PointKind.BLOCK:
            here.change(lambda site, st: st.met([threads.units_of(here.active, True)]))
        elif here.active == threads.everyone:
            wide, every = CLUSTER if kind is PointKind.CLUSTER else GRID, (1 << threads.units) - 1
            here.change(lambda site, st: st.widened(wide, site.made, every))

    def groups(self, p: Privilege, s: ir.Stmt, name: str) -> list[int]:
        """Return the groups of threads that meet here, as units.  A name: incomplete groups are noted by it."""
        shape, among = p.shape, self.here.at.place.shape(p)
        whole = sum(1 << k for k in shape.members)
        found: dict[int, int] = {}
        for t in bits(self.here.active):
            i = self.here.relative(t)
            if i is None:
                raise TooMuch("who meets here is not known", s.span)
            first = t - shape.offset(among.member(i, NUMBERS), NUMBERS)
            found[first] = found.get(first, 0) | 1 << t
        for start, threads in found.items():
            if threads != whole << start and name:
                self.hang(s, name, f"not all of {p.n} threads come to this barrier")
        return [self.threads.units_of(threads, True) for threads in found.values()]

    def by_hand(self, s: ir.Collective, half: SyncHalf) -> None:
        """Follow a part of a barrier of the program's: each group that comes here has one of its own.  That its parts
        come in turn is asked of the text (`Halves`).
        """
        here, p = self.here, s.requires
        self.together(p, s, s.op)
        if p.level is Level.THREAD:
            groups = self.groups(p, s, s.op)
        else:
            groups = [self.threads.units_of(here.active, True)]
            if here.active != self.threads.everyone:
                self.hang(s, s.op, "not all threads of the block come to this barrier")
        wide = CLUSTER if p == CLUSTER1 else 0
        for group in groups:
            uid = hash((s.attr("barrier"), group))
            if half is SyncHalf.ARRIVE:
                here.change(partial(lambda uid, units, site, st: st.arrive(uid, units), uid, group))
            else:
                here.change(partial(lambda uid, g, site, st: st.learns(uid, g, wide, site.made), uid, group))

    def half(self, s: synced.Sync) -> None:
        """Follow a barrier whose arrival and wait are two statements."""
        here, point = self.here, s.point
        units = self.threads.units_of(here.active, True)
        key = (point.uid, point.number)
        self.parted.setdefault(key, {})[s.number, here.values.context] = (s, here.active, here.conditions)
        uid = hash(key)
        if point.kind is PointKind.CLUSTER:
            if here.active != self.threads.everyone:
                self.hang(s, point.object, "not all threads of the block come to this barrier")
            self.together(CLUSTER1, s, point.object)
        if s.part is synced.SyncHalf.ARRIVE:
            here.change(lambda site, st: st.arrive(uid, units))
        else:
            wide = CLUSTER if point.kind is PointKind.CLUSTER else 0
            here.change(lambda site, st: st.awaited(uid, units, wide, site.made))
