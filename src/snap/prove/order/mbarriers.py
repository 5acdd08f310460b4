"""mbarriers: what their phases order, between roles and within one.

Input: waits, arrivals and counted loads, as the walk comes to them.  Output: `Event`s, counters of our own, and by
access how late an arrival must be to tell of it (`lags`); `order/rules.py` and `order/phases.py` decide by these.
Invariant: nothing is closed by an mbarrier of which not all of RULES was shown.  Non-goals: barriers of other kinds.

Slots and phases are one number, the *index*: slot + slots * phase.  RULES, for each mbarrier:

  in turn     a thread arrives for index 0, 1, 2, ... , each once: the slot of an arrival is that of how often the
              thread has arrived before
  counted     all who arrive for one index are as many as the mbarrier counts
  not early   who arrives (or loads) for an index knows that the phase before, in that slot, is complete
  bytes       the bytes expected for an index are those that are loaded for it
  parity      when a thread waits for an index, the next phase of the slot cannot be complete: one of those that it
              takes comes after this wait

Then a phase is complete exactly when all have arrived for its index, and who has waited for an index knows all that
those knew who arrived for it, or before.

Counters of our own go along with the program's variables: how often this thread has arrived (by mbarrier and kind of
arrival), the last index it has waited for, the bytes that are expected and not yet loaded.  How far each of them is
from the program's own counters is found out by bounds on differences (`order/paces.py`), which hold in every iteration
of a loop because they hold at first and each iteration keeps them.

Named barriers that roles arrive at in one loop, and wait for in another (`Meetings.rounds`), keep the same rules, with
one slot: a wait is an arrival, too, and sees no parity.  That as many arrive as are waited for is asked of the text.

What is said of an event holds of every thread that does it, in every iteration.  `told[x][y] = d`: who arrives for
index i of x (or, of an mbarrier, who has waited for it) knows that y has arrived for i + d (of an mbarrier: that the
phase of that index is complete).  Paths of such steps add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import multiplied_into
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.synced import SyncHalf
from snap._compiler.ir.types import Level, Space
from snap._compiler.ir.walk import statements
from snap.diag.span import Span
from snap.prove.order.elements import NOWHERE
from snap.prove.order.kinds import (
    ARRIVE,
    ARRIVED,
    FENCED,
    LOAD,
    NEEDED,
    OVER,
    OWED,
    PHASE,
    START,
    WAIT,
    WAITED,
    EventKind,
)
from snap.prove.order.meetings import Meetings
from snap.prove.order.outline import bits, counters, in_order, never_waited
from snap.prove.order.paces import Bounds, CounterKey, End, Paces, apart, least, most
from snap.prove.order.point import WalkPoint
from snap.prove.order.reach import COPY, PASSED, State, begun
from snap.prove.order.sites import LoopAges, OrderSite
from snap.prove.order.turns import TurnBarrier, turns
from snap.record import replace

NEVER = 1 << 20
PhaseCounts = dict[tuple, dict[tuple, int]]


@dataclass
class Event:
    """An arrival, a load or a wait.  index: its form; knows, needs: by mbarrier, what the thread has waited for, less
    the index: at least, and at most; units: how many arrive at once; role: as of a site; tops: of each loop around,
    counters that only grow, as they were at the top of the iteration.
    """

    key: tuple
    kind: EventKind
    barrier: synced.MBarrier
    index: Form | None
    cls: tuple
    units: int
    knows: dict[int, int]
    needs: dict[int, int]
    facts: tuple
    span: Span
    in_turn: bool
    in_role: bool
    role: tuple
    counters: dict[CounterKey, Form] = field(default_factory=dict)
    tops: dict[tuple, dict[CounterKey, Form]] = field(default_factory=dict)


class Events:
    """arrivals: by kind; of: by mbarrier, the kinds of arrivals at it; told, before: as above, `before` of what has
    happened, whether or not who knows of it sees its memory: an arrival that copies make comes after what its thread
    did, and says nothing of that.  unheard: mbarriers whose phases tell nothing; alone: whether the block is its
    cluster.
    """

    def __init__(self, found: list[Event], barriers: dict[int, synced.MBarrier], unheard: set[int], alone: bool):
        self.barriers, self.unheard, self.alone = barriers, unheard, alone
        self.arrivals: dict[tuple, list[Event]] = {}
        for e in found:
            if e.kind is ARRIVE:
                self.arrivals.setdefault(e.cls, []).append(e)
        self.loads = [e for e in found if e.kind is LOAD]
        self.waits = [e for e in found if e.kind is WAIT]
        self.of = {uid: [c for c in self.arrivals if c[1] == uid] for uid in barriers}
        self.told = self.closed(False)
        self.before = self.closed(True)

    def closed(self, in_time: bool) -> PhaseCounts:
        """Return all paths of steps; in_time: `before`."""
        told: PhaseCounts = {}
        for uid, classes in self.of.items():
            heard = () if uid in self.unheard else classes
            told[PHASE, uid] = {(PHASE, uid): 0, **dict.fromkeys(heard, 0)}
        for cls, found in self.arrivals.items():
            told[cls] = {cls: -1} if found[0].units == 1 and self.alone else {}
            if cls[3] and not in_time:
                continue
            for uid in self.barriers:
                d = min(e.knows[uid] for e in found)
                if abs(d) < NEVER:
                    told[cls][PHASE, uid] = d
        for k in told:
            for i in told:
                if k in told[i]:
                    for j, d in told[k].items():
                        if told[i].get(j, -NEVER) < told[i][k] + d:
                            told[i][j] = told[i][k] + d
        return told

    def at(self, uid: int) -> list[Event]:
        """Return the arrivals at an mbarrier."""
        return [e for c in self.of[uid] for e in self.arrivals[c]]

    def waits_for(self, uid: int) -> list[Event]:
        return [e for e in self.waits if e.barrier.uid == uid]

    def knows(self, e: Event, of: tuple) -> int:
        """Return how far behind its index is what the thread knows of this."""
        return max((d + self.before[PHASE, uid].get(of, -NEVER) for uid, d in e.knows.items()), default=-NEVER)


RULES = ("in turn", "counted", "not early", "bytes", "parity")


class MBarriers:
    """lags: by access, kind of arrival, and what it tells: by counter, how far behind the access an arrival must be.
    role_ends: how roles end, each with the mbarriers that its split touches.  depth: cases entered, and not yet left.
    """

    def __init__(self, here: WalkPoint, paces: Paces, meetings: Meetings):
        self.here, self.values, self.threads = here, here.values, here.threads
        self.paces, self.meetings = paces, meetings
        kernel = here.kernel
        self.barriers = {b.uid: b for b in (*kernel.mbarriers, *meetings.rounds.values())}
        self.events: dict[tuple, Event] = {}
        self.lags: dict[tuple, dict[CounterKey, int]] = {}
        self.role_ends: list[tuple[set[int], End]] = []
        self.depth = 0
        self.turns = turns(kernel)
        if not self.barriers:
            return
        paces.followed = [((), uid) for uid in counters(kernel)]
        for b in kernel.mbarriers:
            paces.follow((WAITED, b.uid), -1)
            if never_waited(kernel, b) < -1 and b.uid not in self.turns:
                paces.follow((NEEDED, b.uid), never_waited(kernel, b))
            paces.follow((OWED, b.uid), 0)
        for b in meetings.rounds.values():
            paces.follow((WAITED, b.uid), -1)
            paces.follow((OWED, b.uid), 0)
            for part in (SyncHalf.ARRIVE, SyncHalf.WAIT):
                paces.follow(_half(b, part), 0)
        for s in statements(kernel.body):
            if isinstance(s, synced.MBarrierArrive):
                paces.follow(_class(s), 0)
        paces.followed += sorted(key for key in here.growing if key not in paces.followed)

    def counted(self, body: ir.Body) -> set[CounterKey]:
        """Return the counters of our own that these statements change."""
        found = set()
        for s in statements(body) if self.barriers else ():
            match s:
                case synced.MBarrierWait(barrier):
                    found |= {((), (WAITED, barrier.uid)), self.needed(barrier.uid)}
                case synced.MBarrierArrive(barrier):
                    found |= {((), _class(s)), ((), (OWED, barrier.uid))}
                case synced.MBarrierExpect(barrier):
                    found.add(((), (OWED, barrier.uid)))
                case synced.CountedLoad(barrier=barrier):
                    found.add(((), (OWED, barrier.uid)))
                case synced.Sync(part=part) if b := self.meetings.round(s):
                    found |= {((), (WAITED, b.uid)), ((), _half(b, part))}
        return found

    def needed(self, uid: int) -> CounterKey:
        """Return the counter of what a thread has waited for, as far as that holds it up: where it begins with a lower
        number than -1, it goes on at one pace with the indices that are waited for.
        """
        key = ((), (NEEDED, uid))
        return key if key in self.paces.followed else ((), (WAITED, uid))

    @staticmethod
    def of_group(key: CounterKey) -> bool:
        """Return whether a counter is kept for the group, whichever thread of it counts."""
        return isinstance(key[1], tuple) and key[1][0] in (ARRIVED, OWED)

    # ---- roles ----

    def left_split(self, s: ir.Split, ends: list[End]) -> None:
        """Note how each role ends, for what others wait for."""
        self.depth -= len(s.cases)
        if not self.barriers:
            return
        if not self.here.dry:
            touched = {key[1][1] for case in s.cases for key in self.counted(case.body)}
            self.role_ends += [(touched, end) for end in ends]
        if s.level is Level.THREAD and len(ends) == len(s.cases):
            for case, end in zip(in_order(s), ends):
                self._all_loaded(s, case, end, ends)

    def _all_loaded(self, s: ir.Split, case: ir.Case, end: End, ends: list[End]) -> None:
        """A role whose threads have all waited for as many phases as any thread has arrived for knows, behind the
        split, that whatever was loaded for them is over; and so do those whom it meets at a barrier.
        """
        alone = any(isinstance(one, synced.Elect) for one in statements(case.body))
        units = 0 if alone else self.threads.units_of(self.here.chosen(s, case, self.here.active), whole=True)
        for uid in sorted({key[1][1] for key in self.counted(case.body) if key[1][0] == WAITED} - self.turns.keys()):
            if not self.barriers[uid].everywhere and all(
                self.waited_for(uid, key, end, ends) for key in self.arrived_at(uid)
            ):
                self.here.change(partial(_loaded, uid, units))

    def arrived_at(self, uid: int) -> list[CounterKey]:
        """Return the counters of arrivals at an mbarrier."""
        return [k for k in self.paces.followed if isinstance(k[1], tuple) and k[1][:2] == (ARRIVED, uid)]

    def waited_for(self, uid: int, count: CounterKey, end: End, ends: list[End]) -> bool:
        """Return whether one counter bounds what a role has waited for, and what all have arrived for."""
        comes = [one for one in ends if one[0].get(count, forms.ZERO) != forms.ZERO]
        for v in (None, *self.paces.shared()):
            low = least(apart(end[0], ((), (WAITED, uid)), v), end[1])
            highs = [most(apart(known, count, v), facts) for known, facts in comes]
            if low is not None and all(high is not None and high <= low + 1 for high in highs):
                return True
        return False

    # ---- statements ----

    def told_at(self, s: ir.Stmt) -> tuple[dict[CounterKey, Form], tuple[int, Form | None] | None]:
        """Return what the counters are at an access, and for which index of which mbarrier it loads."""
        if not self.barriers:
            return {}, None
        loaded = (s.barrier.uid, self.index(s.barrier, s.slot, None)) if isinstance(s, synced.CountedLoad) else None
        return self.paces.at(), loaded

    def index(self, b: synced.MBarrier, slot: ir.Expr, cls: tuple | None) -> Form | None:
        """Return the index that an arrival or load is for, as its slot is written."""
        if b.uid in self.turns:
            return self.values.known.get(((), self.turns[b.uid].counter.uid))
        match slot:
            case ir.Binary("%", counter, ir.Const(n)) if n == b.slots:
                return self.here.form(counter)
            case ir.Const(0) if b.slots == 1 and cls is not None:
                return self.values.known[(), cls]
            case ir.Const(0) if b.slots == 1 and len(found := self.arrived_at(b.uid)) == 1:
                after = self.values.known[(), (OWED, b.uid)] != forms.ZERO  # a load behind the arrival of its index
                return forms.add(self.values.known[found[0]], forms.number(-after))
        return None

    def act(self, s: ir.Stmt) -> None:
        if not self.barriers:
            return
        here = self.here
        match s:
            case ir.Act() if multiplied_into(s) and not here.dry:
                here.change(lambda site, st: st.multiplied(here.acting(site)) if site.line is PASSED else st)
            case synced.MBarrierWait(barrier) if barrier.uid in self.turns:
                self.turn(s, self.turns[barrier.uid])
            case synced.MBarrierWait(barrier, slot, phase):
                self.waited(s, barrier, forms.add(here.form(slot), here.form(phase), barrier.slots))
            case synced.MBarrierArrive():
                self.arrives(s)
            case synced.Sync() if b := self.meetings.round(s):
                self.half(s, b)
            case synced.MBarrierExpect(barrier, slot, count):
                threads, _ = here.issuers(s.place)
                self.owe(barrier, count * threads.bit_count())
            case synced.CountedLoad(barrier=barrier, slot=slot):
                every = s.tile.access.view.obj.spread is ir.Spread.COPIES
                threads, _ = here.issuers(s.place, every)
                self.event(s, LOAD, barrier, self.index(barrier, slot, None), (), 1, True)
                self.owe(barrier, -_bytes(s) * threads.bit_count())

    def owe(self, b: synced.MBarrier, count: int) -> None:
        key = ((), (OWED, b.uid))
        self.values.known[key] = forms.add(self.values.known[key], forms.number(count))

    def waited(self, s: synced.MBarrierWait, b: synced.MBarrier, index: Form) -> None:
        here = self.here
        self.event(s, WAIT, b, index, (), 0, True)
        self.values.known[(), (WAITED, b.uid)] = self.values.known[self.needed(b.uid)] = index
        if here.dry or not here.born or here.tokens is None:
            return
        site = OrderSite(
            key=here.key(s.number, WAIT), name=b.name, span=s.span, statement=s, writes=False, reads=False,
            line=PASSED, memory=("wait", b.uid), space=Space.GENERIC, foot=NOWHERE, loops=here.loops,
            made=self.threads.units_of(here.active), threads=here.active, counts=self.paces.at(),
        )  # fmt: skip
        here.tokens[site, ()] = begun(PASSED, self.threads.units, site.made)

    def turn(self, s: synced.MBarrierWait, turn: TurnBarrier) -> None:
        """Follow a wait of a turn: in the rule of circles it is one for the turn of this number of some other unit."""
        if not self.here.dry:
            turn.waited(self.here.active, self.here.form(s.slot), self.here.form(turn.unit))
        count = self.values.known[(), turn.counter.uid]
        self.event(s, WAIT, s.barrier, count, (), 0, True)
        self.values.known[(), (WAITED, s.barrier.uid)] = count

    def half(self, s: synced.Sync, b: synced.MBarrier) -> None:
        """Follow a barrier that roles arrive at, and wait for, in their loops.  Whoever waits arrives by that, too."""
        here, cls = self.here, _half(b, s.part)
        index, active = self.values.known[(), cls], here.active
        self.event(s, ARRIVE, b, index, (*cls, active), active.bit_count(), True)
        if not here.dry:
            self.covers((*cls, active), (), False, index, active)
        self.values.known[(), cls] = forms.add(index, forms.number(1))
        if s.part is SyncHalf.WAIT:
            self.event(s, WAIT, b, index, (), 0, True)
            self.values.known[(), (WAITED, b.uid)] = index
            if not here.dry:
                here.change(lambda site, st: st.met([self.threads.units_of(active, True)]))

    def arrives(self, s: synced.MBarrierArrive) -> None:
        here, b, cls, threads = self.here, s.barrier, _class(s), self.arriving(s)
        if not here.dry:
            if b.uid in self.turns:
                self.turns[b.uid].arrived(here.active, here.form(s.slot), threads)
            self.meetings.waits(s.point)
        index, count = self.index(b, s.slot, cls), self.values.known[(), cls]
        gap = None if index is None else forms.subtract(index, count)
        in_turn = gap is not None and least(gap, self.values.facts) == most(gap, self.values.facts) == 0
        self.event(s, ARRIVE, b, index, (*cls, threads), threads.bit_count(), in_turn)
        if not here.dry:
            if s.point.fence:
                self.meetings.fences()
            small = s.by.level is Level.THREAD and 1 < s.by.n <= WARP
            groups = self.meetings.groups(s.by, s, "") if small else ()
            self.covers((*cls, threads), groups, s.copies, index, threads)
            if s.copies:
                self.landed(b.uid, threads)
        self.values.known[(), cls] = forms.add(count, forms.number(1))
        if s.bytes:
            self.owe(b, s.bytes * threads.bit_count())

    def arriving(self, s: synced.MBarrierArrive) -> int:
        n = s.by.n if s.by.level is Level.THREAD else 0
        found = 0
        for t in bits(self.here.active):
            i = self.here.relative(t)
            if (t if not n else (i or 0) % n) == 0:
                found |= 1 << t
        return found

    def event(
        self, s: Any, kind: EventKind, b: synced.MBarrier, index: Form | None, cls: tuple, units: int, in_turn: bool
    ) -> None:
        here, values = self.here, self.values
        if here.dry or not here.born:
            return
        knows, needs = {}, {}
        for uid in self.barriers:
            gap = forms.subtract(values.known[(), (WAITED, uid)], index or forms.ZERO)
            held = forms.subtract(values.known[self.needed(uid)], index or forms.ZERO)
            behind, ahead = least(gap, values.facts), most(held, values.facts)
            knows[uid] = -NEVER if behind is None or index is None else behind
            needs[uid] = NEVER if ahead is None or index is None else ahead
        key = here.key(s.number, kind)
        self.events[key] = Event(
            key, kind, b, index, cls, units, knows, needs, tuple(values.facts), s.span, in_turn and index is not None,
            self.depth > 0, here.role, self.paces.at(), {loop: here.tops[loop] for loop in here.loops},
        )  # fmt: skip

    # ---- what arrivals tell ----

    def covers(self, cls: tuple, groups: Sequence[int], copies: bool, index: Form | None, threads: int) -> None:
        """Find by access how far behind it an arrival must be to tell of it (`lags`).  groups: units that have met."""
        units = self.threads.units_of(threads)
        bounds = Bounds(self.values.facts)
        for (site, ages), state in (self.here.tokens or {}).items():
            if site.register:
                continue
            for what, reach in ((OVER, state.over), (FENCED, state.fenced)):
                if copies and site.line is not PASSED:
                    told = site.made if site.line is COPY and what == OVER else 0
                else:
                    heard = reach.met(groups) if groups else reach
                    mine = heard.own & ~self.threads.units_of(site.threads & ~threads)
                    told = mine | sum(1 << u for u, row in enumerate(heard.rows) if row & units)
                lag = self.lags.setdefault((site.key, cls, what), {})
                if site.made & ~told:
                    self.behind(lag, site, ages, index, bounds)

    def landed(self, barrier: int, threads: int) -> None:
        """Note that what these threads have copied arrives there when it is over."""
        mine = lambda site: site.line is COPY and not site.threads & ~threads  # noqa: E731
        self.here.change(lambda site, state: state.lands_at(barrier) if mine(site) else state)

    def behind(
        self, lag: dict[CounterKey, int], site: OrderSite, ages: LoopAges, index: Form | None, bounds: Bounds
    ) -> None:
        """Note that this arrival does not tell of an access: who wants to know needs a later one."""
        lag.setdefault((), 1)
        for key, x in site.counts.items():
            at = _moved(x, ages, self.values)
            far = None if at is None or index is None else bounds.most(forms.subtract(index, at))
            lag[key] = max(lag.get(key, -NEVER), NEVER if far is None else far + 1)


def _class(s: synced.MBarrierArrive) -> tuple:
    return (ARRIVED, s.barrier.uid, str(s.by), s.copies)


def _half(b: synced.MBarrier, part: SyncHalf) -> tuple:
    return (ARRIVED, b.uid, part, False)


def _loaded(uid: int, units: int, site: OrderSite, st: State) -> State:
    counted = site.loaded is not None and site.loaded[0] == uid and site.rank is None
    return replace(st, over=st.over.learnt(site.made, units)) if counted else st


def _bytes(s: ir.BoxCopy) -> int:
    return math.prod(s.tile.shape, start=s.tile.access.view.elem.bytes)


def _moved(x: Form, ages: LoopAges, values: Any) -> Form | None:
    """Return what it was in an earlier iteration, in terms of now; None where that is not known."""
    carried = {loop: (d, exact) for loop, d, exact in ages if loop[0] != START}
    if not carried:
        return x
    change = {}
    for atom in forms.atoms([x]):
        around = [loop for loop in values.born.get(atom, ()) if loop in carried]
        if not around:
            continue
        if atom[0] == forms.TRIP and atom[1] in carried and around == [atom[1]] and carried[atom[1]][1]:
            change[atom] = forms.add(forms.unknown(atom), forms.number(-carried[atom[1]][0]))
        else:
            return None
    return forms.replaced(x, change) if change else x
