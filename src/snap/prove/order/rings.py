"""mbarriers: what their phases order, between roles and within one.

Input: waits, arrivals and counted loads, as the walk comes to them.  Output: pairs that the walk left open and that a
phase orders are closed; what is not shown to hold of an mbarrier is said (`Stuck`).  Invariant: nothing is closed by an
mbarrier of which not all of RULES was shown.  Non-goals: barriers of other kinds.

Slots and phases are one number, the *index*: slot + slots * phase.  RULES, for each mbarrier:

  in turn     whoever arrives does so for index 0, 1, 2, ... , each once: the slot of an arrival is that of how often
              the thread has arrived before
  counted     all who arrive for one index are as many as the mbarrier counts
  not early   who arrives (or loads) for an index knows that the phase before, in that slot, is complete
  bytes       the bytes expected for an index are those that are loaded for it
  parity      when somebody waits for an index, the next phase of the slot cannot be complete: one of those that it
              takes comes after this wait

Then a phase is complete exactly when all have arrived for its index, and who has waited for an index knows all that
those knew who arrived for it, or before.

Counters of our own go along with the program's variables: how often this thread has arrived (by mbarrier and kind of
arrival), the last index it has waited for, the bytes that are expected and not yet loaded.  How far each of them is
from the program's own counters is found out by bounds on differences (`order/counts.py`), which hold in every iteration
of a loop because they hold at first and each iteration keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.footprints import Footprint
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import Effect, multiplied_into
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import I32, Level, Space
from snap._compiler.ir.walk import statements
from snap.diag.span import Span
from snap.prove.order.acts import Open, OrderMemory
from snap.prove.order.counts import Bounds, CounterKey, apart, least, most
from snap.prove.order.kinds import (
    ARRIVE,
    ARRIVED,
    FENCED,
    LOAD,
    NEEDED,
    OVER,
    OWED,
    REGISTERS,
    START,
    WAIT,
    WAITED,
    EventKind,
)
from snap.prove.order.outline import bits, counters, never_waited
from snap.prove.order.paces import Paces
from snap.prove.order.reach import State, begun
from snap.prove.order.sites import LoopAges, OrderSite
from snap.prove.order.timelines import COPY, PASSED
from snap.prove.order.turns import TurnBarrier, turns
from snap.record import replace

NEVER = 1 << 20
RULES = ("in turn", "counted", "not early", "bytes", "parity")


@dataclass
class Event:
    """An arrival, a load or a wait.  index: its form; knows, needs: by mbarrier, what the thread has waited for, less
    the index: at least, and at most; units: how many arrive at once; tops: of each loop around, counters that only
    grow, as they were at the top of the iteration.
    """

    key: tuple
    kind: EventKind
    barrier: synced.MBarrier
    index: Form
    cls: tuple
    active: int
    units: int
    knows: dict[int, int]
    needs: dict[int, int]
    facts: tuple
    span: Span
    in_turn: bool
    in_role: bool
    counters: dict[CounterKey, Form] = field(default_factory=dict)
    tops: dict[tuple, dict[CounterKey, Form]] = field(default_factory=dict)


NOWHERE = Footprint(I32, None, None, ())


class Rings(Paces):
    def __init__(self, kernel: synced.Function):
        super().__init__(kernel)
        self.events: dict[tuple, Event] = {}
        self.lags: dict[tuple, dict[CounterKey, int]] = {}
        self.left: dict[tuple, tuple[Open, State]] = {}
        self.role_ends: list[tuple[set[int], tuple[dict, list]]] = []  # with the mbarriers that the split touches
        self.depth = 0  # cases entered, and not yet all left
        self.turns = turns(kernel)
        if not kernel.mbarriers:
            return
        self.followed = [((), uid) for uid in counters(kernel)]
        for b in kernel.mbarriers:
            self.follow((WAITED, b.uid), -1)
            if never_waited(kernel, b) < -1 and b.uid not in self.turns:
                self.follow((NEEDED, b.uid), never_waited(kernel, b))
            self.follow((OWED, b.uid), 0)
        for s in statements(kernel.body):
            if isinstance(s, synced.MBarrierArrive):
                self.follow(_class(s), 0)
        self.followed += sorted(key for key in self.counters if key not in self.followed)

    def ghosts(self, body: ir.Body) -> set:
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
        return found

    def needed(self, uid: int) -> CounterKey:
        """The counter of what a thread has waited for, as far as that holds it up: where it begins with a lower number
        than -1, it goes on at one pace with the indices that are waited for.
        """
        key = ((), (NEEDED, uid))
        return key if key in self.followed else ((), (WAITED, uid))

    # ---- roles ----

    def entered_case(self, s: ir.Split, case: ir.Case, siblings: Any) -> None:
        self.depth += 1

    def of_all(self, key: tuple) -> bool:
        return isinstance(key[1], tuple) and key[1][0] in (ARRIVED, OWED)

    def left_split(self, s: ir.Split, ends: list[tuple[dict, list]]) -> None:
        """How each role ends, for what others wait for."""
        self.depth -= len(s.cases)
        if not self.dry and self.barriers:
            touched = {key[1][1] for case in s.cases for key in self.ghosts(case.body)}
            self.role_ends += [(touched, end) for end in ends]
        if self.barriers and s.level is Level.THREAD and len(ends) == len(s.cases):
            for case, end in zip(self.in_order(s), ends):
                self._all_loaded(s, case, end, ends)

    def _all_loaded(self, s: ir.Split, case: ir.Case, end: tuple[dict, list], ends: list[tuple[dict, list]]) -> None:
        """A role whose threads have all waited for as many phases as anybody has arrived for knows, behind the split,
        that whatever was loaded for them is over; and so do those whom it meets at a barrier.
        """
        alone = any(isinstance(one, synced.Elect) for one in statements(case.body))
        units = 0 if alone else self.unit_mask(self.chosen(s, case, self.active), whole=True)
        for uid in sorted({key[1][1] for key in self.ghosts(case.body) if key[1][0] == WAITED} - self.turns.keys()):
            counts = [key for key in self.followed if _arrival(key) == uid]
            if not self.barriers[uid].everywhere and all(self.waited_for(uid, key, end, ends) for key in counts):
                self.change(lambda site, st, uid=uid: _loaded(site, st, uid, units))

    def waited_for(self, uid: int, count: CounterKey, end: tuple[dict, list], ends: list[tuple[dict, list]]) -> bool:
        """The same counter of the program bounds what a role has waited for, and what all have arrived for."""
        comes = [one for one in ends if one[0].get(count, forms.ZERO) != forms.ZERO]
        for v in (None, *(k for k in self.followed if isinstance(k[1], int) and self.same_steps(k[1]))):
            low = least(apart(end[0], ((), (WAITED, uid)), v), end[1])
            highs = [most(apart(known, count, v), facts) for known, facts in comes]
            if low is not None and all(high is not None and high <= low + 1 for high in highs):
                return True
        return False

    # ---- statements ----

    def site(self, s: ir.Stmt, k: object, effect: Effect, memory: OrderMemory) -> OrderSite:
        made = super().site(s, k, effect, memory)
        if self.barriers and "counts" not in made.extra:
            made.extra["counts"] = {key: self.values.known[key] for key in self.followed if key in self.values.known}
            if isinstance(s, synced.CountedLoad):
                made.extra["loaded"] = (s.barrier.uid, self.index(s.barrier, s.slot, None))
        return made

    def index(self, b: synced.MBarrier, slot: ir.Expr, cls: tuple | None) -> Form | None:
        """The index that an arrival or load is for, as its slot is written."""
        if b.uid in self.turns:
            return self.values.known.get(((), self.turns[b.uid].counter.uid))
        match slot:
            case ir.Binary("%", counter, ir.Const(n)) if n == b.slots:
                return self.form(counter)
            case ir.Const(0) if b.slots == 1:
                found = [k for k in self.followed if _arrival(k) == b.uid] if cls is None else []
                key = ((), cls) if cls is not None else found[0] if len(found) == 1 else None
                back = 0 if cls is not None else self.after_arrival(b)
                return None if key is None else forms.add(self.values.known[key], forms.number(-back))
        return None

    def after_arrival(self, b: synced.MBarrier) -> int:
        """1 where a load comes behind the arrival of its index."""
        return 1 if self.values.known[(), (OWED, b.uid)] != forms.ZERO else 0

    def mbarrier(self, s: ir.Stmt) -> None:
        if not self.barriers:
            return
        match s:
            case ir.Act() if multiplied_into(s) and not self.dry:
                self.change(lambda site, st: st.multiplied(self.acting(site)) if site.line is PASSED else st)
            case synced.MBarrierWait(barrier, slot) if barrier.uid in self.turns:
                self.turn(s, self.turns[barrier.uid])
            case synced.MBarrierWait(barrier, slot, phase):
                self.waited(s, barrier, forms.add(self.form(slot), self.form(phase), barrier.slots))
            case synced.MBarrierArrive():
                self.arrives(s)
            case synced.MBarrierExpect(barrier, slot, count):
                threads, _ = self.issuers(s.place)
                self.owe(barrier, count * threads.bit_count())
            case synced.CountedLoad(barrier=barrier, slot=slot):
                every = s.tile.access.view.obj.spread is ir.Spread.COPIES
                threads, _ = self.issuers(s.place, every)
                index = self.index(barrier, slot, None)
                self.event(s, LOAD, barrier, index, (), threads, 1, True)
                self.owe(barrier, -_bytes(s) * threads.bit_count())

    def owe(self, b: synced.MBarrier, count: int) -> None:
        key = ((), (OWED, b.uid))
        self.values.known[key] = forms.add(self.values.known[key], forms.number(count))

    def waited(self, s: synced.MBarrierWait, b: synced.MBarrier, index: Form) -> None:
        self.event(s, WAIT, b, index, (), self.active, 0, True)
        self.values.known[(), (WAITED, b.uid)] = self.values.known[self.needed(b.uid)] = index
        if self.dry or not self.born or self.tokens is None:
            return
        key = (self.frame, s.number, self.values.context, "wait")
        counts = {k: self.values.known[k] for k in self.followed if k in self.values.known}
        site = OrderSite(
            key, b.name, s.span, False, False, "", PASSED, ("wait", b.uid), Space.GENERIC, NOWHERE, None, (),
            self.loops, (), (), {}, {}, self.unit_mask(self.active), False,
            extra={"threads": self.active, "statement": s, "counts": counts},
        )  # fmt: skip
        self.tokens[site, ()] = begun(PASSED, self.units, site.made)

    def turn(self, s: synced.MBarrierWait, turn: TurnBarrier) -> None:
        """In the rule of circles it counts as a wait for the turn of this number of some other unit."""
        if not self.dry:
            turn.waited(self.active, self.form(s.slot), self.form(turn.unit))
        count = self.values.known[(), turn.counter.uid]
        self.event(s, WAIT, s.barrier, count, (), self.active, 0, True)
        self.values.known[(), (WAITED, s.barrier.uid)] = count

    def arrives(self, s: synced.MBarrierArrive) -> None:
        b, cls = s.barrier, _class(s)
        if b.uid in self.turns and not self.dry:
            self.turns[b.uid].arrived(self.active, self.form(s.slot), self.arriving(s))
        if not self.dry:
            self.waits(s.point)
        threads = self.arriving(s)
        index = self.index(b, s.slot, cls)
        count = self.values.known[(), cls]
        in_turn = index is not None and least(forms.subtract(index, count), self.values.facts) == 0
        in_turn = in_turn and most(forms.subtract(index, count), self.values.facts) == 0  # type: ignore[arg-type]
        self.event(s, ARRIVE, b, index, cls, threads, threads.bit_count(), in_turn)
        if not self.dry:
            if s.point.fence:
                self.fences()
            self.covers(s, index, threads)
            if s.copies:
                self.landed(b.uid, threads)
        self.values.known[(), cls] = forms.add(count, forms.number(1))
        if s.bytes:
            self.owe(b, s.bytes * threads.bit_count())

    def arriving(self, s: synced.MBarrierArrive) -> int:
        n = s.by.n if s.by.level is Level.THREAD else 0
        found = 0
        for t in bits(self.active):
            i = self.relative(self.at, t)
            if (t if not n else (i or 0) % n) == 0:
                found |= 1 << t
        return found

    def event(self, s, kind: EventKind, b, index, cls, threads, units, in_turn) -> None:
        if self.dry or not self.born:
            return
        knows, needs = {}, {}
        for uid in self.barriers:
            gap = forms.subtract(self.values.known[(), (WAITED, uid)], index or forms.ZERO)
            held = forms.subtract(self.values.known[self.needed(uid)], index or forms.ZERO)
            behind, ahead = least(gap, self.values.facts), most(held, self.values.facts)
            knows[uid] = -NEVER if behind is None or index is None else behind
            needs[uid] = NEVER if ahead is None or index is None else ahead
        key = (self.frame, s.number, self.values.context, kind)
        self.events[key] = Event(
            key, kind, b, index, (*cls, threads) if cls else (), self.active, units, knows, needs,
            tuple(self.values.facts), s.span, in_turn and index is not None, self.depth > 0,
            {k: self.values.known[k] for k in self.followed if k in self.values.known},
            {loop: self.tops[loop] for loop in self.loops},
        )  # fmt: skip

    # ---- what arrivals tell ----

    def covers(self, s: synced.MBarrierArrive, index: Form | None, threads: int) -> None:
        """By access, how far behind an arrival it must lie so that the arrival tells of it (`lags`)."""
        units = self.unit_mask(threads)
        small = s.by.level is Level.THREAD and 1 < s.by.n <= WARP
        groups = self.groups(s.by.n, s, "") if small else []
        bounds = Bounds(self.values.facts)
        for (site, ages), state in (self.tokens or {}).items():
            if site.register:
                continue
            for what, reach in ((OVER, state.over), (FENCED, state.fenced)):
                if s.copies and site.line is not PASSED:
                    told = site.made if site.line is COPY and what == OVER else 0
                else:
                    heard = reach.met(groups) if groups else reach
                    mine = heard.own & ~self.unit_mask(site.extra["threads"] & ~threads)
                    told = mine | sum(1 << u for u, row in enumerate(heard.rows) if row & units)
                lag = self.lags.setdefault((site.key, (*_class(s), threads), what), {})
                if site.made & ~told:
                    self.behind(lag, site, ages, index, bounds)

    def landed(self, barrier: int, threads: int) -> None:
        """What these threads have copied arrives there when it is over."""
        mine = lambda site: site.line is COPY and not site.extra["threads"] & ~threads  # noqa: E731
        self.change(lambda site, state: state.lands_at(barrier) if mine(site) else state)

    def behind(
        self, lag: dict[CounterKey, int], site: OrderSite, ages: LoopAges, index: Form | None, bounds: Bounds
    ) -> None:
        """This arrival does not tell of it: who wants to know needs a later one."""
        lag.setdefault((), 1)
        for key, x in site.extra["counts"].items():
            at = _moved(x, ages, self.values)
            far = None if at is None or index is None else bounds.most(forms.subtract(index, at))
            lag[key] = max(lag.get(key, -NEVER), NEVER if far is None else far + 1)

    def compare(self, a: OrderSite, b: OrderSite, ages: LoopAges, state: State) -> None:
        """What phases may order is asked about once, when all of them are known."""
        if not self.barriers or a.register:
            return super().compare(a, b, ages, state)
        for why, reach in self.wanted(a, b, state):
            if not self.all_know(a, b, reach):
                pair = Open(a, b, ages, why, None)
                self.left.setdefault((a.key, b.key, ages, why), (pair, state))

    def unordered(self, pair: Open, state: State) -> None:
        if self.barriers and pair.why is not REGISTERS:
            self.left.setdefault((pair.first.key, pair.second.key, pair.ages, pair.why), (pair, state))
        else:
            super().unordered(pair, state)


def _class(s: synced.MBarrierArrive) -> tuple:
    return (ARRIVED, s.barrier.uid, str(s.by), s.copies)


def _loaded(site: OrderSite, st: State, uid: int, units: int) -> State:
    counted = site.extra.get("loaded", (None,))[0] == uid and site.rank is None
    return replace(st, over=st.over.learnt(site.made, units)) if counted else st


def _arrival(key: CounterKey) -> int | None:
    return key[1][1] if isinstance(key[1], tuple) and key[1][0] == ARRIVED else None


def _bytes(s: ir.BoxCopy) -> int:
    count = s.tile.access.view.elem.bytes
    for n in s.tile.shape:
        count *= n
    return count


def _moved(x: Form, ages: LoopAges, values: Any) -> Form | None:
    """What it was so many iterations ago, in terms of now; None where that cannot be said."""
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
