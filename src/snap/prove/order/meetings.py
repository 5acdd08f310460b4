"""Barriers, commits, waits and fences: who knows of earlier accesses behind them, and who never reaches one.

Input: synchronizing statements, as the walk comes to them.  Output: the states of accesses behind us, changed; barriers
that some threads never reach (`Stuck`).  Invariant: a statement means what the seeded machine makes of it
(`machine/source/asynchronous.py`).  Non-goals: mbarriers (`order/mbarriers.py`).
"""

from __future__ import annotations

from functools import partial, reduce
from operator import or_

from snap._compiler.analysis.uniform import differs
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.halves import half_of
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.strides import NUMBERS
from snap._compiler.ir.synced import WHOLE, PointKind, SyncHalf, meets
from snap._compiler.ir.types import BLOCK1, CLUSTER1, Level, Privilege, Space
from snap.diag.span import Span
from snap.prove.order.elements import NOWHERE
from snap.prove.order.kinds import START
from snap.prove.order.outline import bits, in_rounds
from snap.prove.order.point import WalkPoint
from snap.prove.order.reach import CLUSTER, GRID, THREAD, State, begun
from snap.prove.order.reading import TooMuch
from snap.prove.order.sites import OrderSite
from snap.record import record, replace


@record
class Stuck:
    """Name a barrier or wait that may never be passed."""

    span: Span
    name: str
    why: str


class Meetings:
    """parted: of barriers whose arrival and wait are two statements, by barrier, group, loops around and iterations
    that are walked one by one: the statements, in the order of the walk, who executes each, and what decides about the
    way there.  rounds: those that are followed as mbarriers, by point.
    """

    def __init__(self, here: WalkPoint):
        self.here, self.threads = here, here.threads
        self.stuck: dict[tuple, Stuck] = {}
        self.rounds = in_rounds(here.kernel, self.threads.count)
        self.parted: dict[tuple, dict[int, tuple[synced.Sync, int, tuple]]] = {}

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
                self.together(_of_block(p), s, name)
                here.change(lambda site, st: st.met(groups))
            return
        if here.active != threads.everyone:
            self.hang(s, name, "not all threads of the block come to this barrier")
        self.together(WHOLE[kind], s, name)
        if kind is PointKind.BLOCK:
            here.change(lambda site, st: st.met([threads.units_of(here.active, True)]))
        elif here.active == threads.everyone:
            if kind is PointKind.CLUSTER:
                self.of_the_cluster(s, name, SyncHalf.BOTH)
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
        """Follow a barrier whose arrival and wait are two statements.  Whoever arrives goes on, and may come round to
        it again: so an arrival is that of one wait alone, in the same iterations of the same loops; and who arrives
        must know that everything that was waited for before at this barrier is complete.  Where the loops are those of
        two roles, both are counted (`order/mbarriers.py`).
        """
        here, point = self.here, s.point
        arrives = s.part is synced.SyncHalf.ARRIVE
        wide = CLUSTER if point.kind is PointKind.CLUSTER else 0
        if wide and here.active != self.threads.everyone:
            self.hang(s, point.object, "not all threads of the block come to this barrier")
        self.together(CLUSTER1 if wide else _of_block(point.participants), s, point.object)
        if self.round(s):
            self.parted.setdefault((point.uid,), {}).setdefault(s.number, (s, here.active, here.conditions))
            return
        for group, active in self.taking_part(point):
            name = here.key(point.uid, point.number, group, here.loops)
            self.parted.setdefault(name, {}).setdefault(s.number, (s, active, here.conditions))
            units, uid = self.threads.units_of(active, True), hash(name)
            if wide:
                self.of_the_cluster(s, point.object, s.part)
            else:
                self.in_turn(s, name, (PointKind.NAMED, point.number, group), active)
            if arrives:
                here.change(partial(lambda uid, units, site, st: st.arrive(uid, units), uid, units))
            else:
                here.change(partial(lambda uid, units, site, st: st.awaited(uid, units, wide, site.made), uid, units))

    def round(self, s: synced.Sync) -> synced.MBarrier | None:
        """Return what this part of a barrier is followed as, where that is an mbarrier."""
        return None if s.part is SyncHalf.BOTH else self.rounds.get(s.point.uid)

    def taking_part(self, point: synced.SyncPoint) -> list[tuple[int, int]]:
        """Return the groups that have such a barrier of their own, each with its threads that are here."""
        n = self.size(point)
        found: dict[int, int] = {}
        for t in bits(self.here.active):
            found[t // n] = found.get(t // n, 0) | 1 << t
        return sorted(found.items())

    def size(self, point: synced.SyncPoint) -> int:
        return point.participants.n if point.participants.level is Level.THREAD else self.threads.count

    def in_turn(self, s: synced.Sync, name: tuple, barrier: tuple, active: int) -> None:
        """Ask whether each of these threads knows, when it arrives, that some thread has passed every wait at this
        barrier that lies behind; and put a wait there for those that arrive next.  name: of this barrier, here: some
        may wait in one statement, and others in another one.
        """
        here, threads = self.here, self.threads
        units = threads.units_of(active, True)
        for (site, ages), state in (here.tokens or {}).items():
            same = site.key[:-1] == name and not any(d or not exact for at, d, exact in ages if at[0] != START)
            if site.memory == barrier and not same:
                mine = state.over.own & ~threads.units_of(site.threads & ~active)
                if units & ~reduce(or_, state.over.rows, mine):
                    self.hang(s, s.point.object, EARLY)
        if s.part is synced.SyncHalf.WAIT:
            self.put(s, (*name, s.number), barrier, active, over=True)

    def of_the_cluster(self, s: ir.Stmt, name: str, part: SyncHalf) -> None:
        """Ask whether each thread waits at the cluster's barrier, of which there is one, before it arrives again."""
        here = self.here
        arrived = [state for (site, _), state in (here.tokens or {}).items() if site.memory == ARRIVED]
        if part is SyncHalf.WAIT:
            over = lambda site, st: replace(st, over=replace(st.over, own=site.made))  # noqa: E731
            here.change(lambda site, st: over(site, st) if site.memory == ARRIVED else st)
        elif not all(state.over.own for state in arrived):
            self.hang(s, name, "threads may arrive at the cluster's barrier again before they have waited")
        if part is SyncHalf.ARRIVE:
            self.put(s, here.key(s.number, ARRIVED), ARRIVED, here.active, over=False)

    def put(self, s: ir.Stmt, key: tuple, memory: tuple, active: int, over: bool) -> None:
        """Put what is no access behind us, where what lies between it and a later statement matters."""
        here = self.here
        if not here.born or here.tokens is None:
            return
        site = OrderSite(
            key=key, name="", span=s.span, statement=s, writes=False, reads=False, line=THREAD, memory=memory,
            space=Space.GENERIC, foot=NOWHERE, loops=here.loops, made=self.threads.units_of(active), threads=active,
        )  # fmt: skip
        state = begun(THREAD, self.threads.units, site.made)
        here.tokens[site, ()] = state if over else replace(state, over=replace(state.over, own=0))


ARRIVED = (PointKind.CLUSTER,)  # "memory" of arrivals at the cluster's barrier: over when they have been waited for
EARLY = "threads that arrive here may not know that the wait before at this barrier is over"


def _of_block(p: Privilege) -> Privilege:
    return p if p.level is Level.THREAD else BLOCK1
