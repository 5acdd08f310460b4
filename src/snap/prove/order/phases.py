"""What was seen of mbarriers, put together: their rules, and the pairs that their phases order.

Input: the events, lags and open pairs of `order/rings.py`.  Output: pairs that stay open, and what may hang.
Invariant: as there.  Non-goals: walking the program.

`told[x][y] = d`: who arrives for index i of x (or, of an mbarrier, who has waited for it) knows that y has arrived for
i + d (of an mbarrier: that the phase of that index is complete).  Paths of such steps add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import synced
from snap._compiler.ir.types import Space
from snap.prove.order.acts import Open, Stuck
from snap.prove.order.circles import circles
from snap.prove.order.counts import CounterKey, apart, least, most
from snap.prove.order.kinds import ARRIVE, FENCED, LOAD, ORDER, OVER, OWED, PHASE, START, WAIT, WAITED
from snap.prove.order.reach import Reach, State
from snap.prove.order.rings import NEVER, Event, Rings
from snap.prove.order.sites import Besides, MeetingThreads, OrderSite
from snap.prove.order.turns import wrong

PhaseCounts = dict[tuple, dict[tuple, int]]
MOST_WAYS = 5  # that have alternatives, each of which is asked about with all of the others


class Phases:
    def __init__(self, rings: Rings):
        self.rings = rings
        self.wrong: dict[tuple, Stuck] = {}
        events = list(rings.events.values())
        self.arrivals: dict[tuple, list[Event]] = {}
        for e in events:
            if e.kind is ARRIVE:
                self.arrivals.setdefault(e.cls, []).append(e)
        self.loads = [e for e in events if e.kind is LOAD]
        self.waits = [e for e in events if e.kind is WAIT]
        self.of = {uid: [c for c in self.arrivals if c[1] == uid] for uid in rings.barriers}
        self.told = self.closed(False)
        self.before = self.closed(True)
        self.sound = {uid for uid in rings.barriers}
        self.rules()

    # ---- who knows of whom ----

    def closed(self, in_time: bool) -> PhaseCounts:
        """All paths of steps.  in_time: what has happened before, whether or not who knows of it sees its memory: an
        arrival that copies make comes after what its thread did, and says nothing of that.
        """
        told: PhaseCounts = {}
        for uid, classes in self.of.items():
            heard = () if uid in self.rings.turns else classes
            told[PHASE, uid] = {(PHASE, uid): 0, **dict.fromkeys(heard, 0)}
        for cls, found in self.arrivals.items():
            own = {cls: -1} if found[0].units == 1 and self.rings.cluster == 1 else {}
            told[cls] = own
            if cls[3] and not in_time:
                continue
            for uid in self.rings.barriers:
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

    def knows(self, e: Event, of: tuple) -> int:
        """How far behind its index is what the thread knows of this."""
        return max((d + self.before[PHASE, uid].get(of, -NEVER) for uid, d in e.knows.items()), default=-NEVER)

    # ---- the rules ----

    def say(self, e: Event | None, b: synced.MBarrier, why: str, sound: bool = False) -> None:
        """sound: what is complete is complete, though it may never be."""
        if not sound:
            self.sound.discard(b.uid)
        span = b.span if e is None else e.span
        self.wrong.setdefault((span, b.uid, why), Stuck(span, b.name, why))

    def rules(self) -> None:
        for uid, turn in self.rings.turns.items():
            self.sound.discard(uid)
            why = wrong(self.rings.kernel, turn, self.rings.ranges)
            if why:
                self.wrong[turn.wait.span, uid, why] = Stuck(turn.wait.span, turn.barrier.name, why)
        for uid, b in self.rings.barriers.items():
            if uid in self.rings.turns:
                continue
            events = [e for c in self.of[uid] for e in self.arrivals[c]]
            for e in events:
                if not e.in_turn:
                    self.say(e, b, "it is not shown that arrivals come slot after slot, each once")
            self.counted(b)
            self.not_early(b, events)
            for e in self.waits:
                if e.barrier.uid == uid:
                    self.parity(e, b)
        self.bytes()
        self.circles()
        self.reached()

    def counted(self, b: synced.MBarrier) -> None:
        classes = self.of[b.uid]
        everywhere = any(e.barrier.everywhere for c in classes for e in self.arrivals[c])
        times = self.rings.cluster if everywhere else 1
        total = sum(self.arrivals[c][0].units for c in classes) * times
        mixed = any(e.barrier.everywhere is not b.everywhere for c in classes for e in self.arrivals[c])
        named: dict[tuple, int] = {}
        overlap = False
        for c in classes:
            overlap = overlap or bool(named.get(c[:-1], 0) & c[-1])
            named[c[:-1]] = named.get(c[:-1], 0) | c[-1]
        if total != b.count or overlap or mixed:
            first = self.arrivals[classes[0]][0] if classes else None
            self.say(first, b, f"{total} arrive for a phase that counts {b.count}")

    def not_early(self, b: synced.MBarrier, events: list[Event]) -> None:
        loads = [e for e in self.loads if e.barrier.uid == b.uid]
        if b.count == 1 and not loads:
            return
        for e in (*events, *loads):
            if e.index is None or self.knows(e, (PHASE, b.uid)) < -b.slots:
                what = "loads" if e.kind is LOAD else "arrives"
                self.say(e, b, f"who {what} here may not know that the phase before is complete")

    def parity(self, e: Event, b: synced.MBarrier) -> None:
        """Somebody that the next phase of the slot takes comes after this wait, whoever waits here."""
        facts, w = e.facts, e.index
        assert w is not None
        if all(self._last(x, w, b) for c in self.of[b.uid] for x in self.arrivals[c]):
            return
        for c in self.of[b.uid]:
            for d in self.arrivals:
                step = 0 if c == d else self.before[c].get(d, -NEVER)
                lag = self.rings.lags.get((e.key, d, OVER))
                count = e.counters.get(((), d[:-1]))
                if lag is None or count is None or step <= -NEVER:
                    continue
                latest = forms.add(w, forms.number(b.slots + step))
                after = least(forms.subtract(latest, count), facts)
                late = [_sure(latest, e.counters[k], n, facts) for k, n in lag.items() if k in e.counters]
                if after is not None and after >= 0 and (not lag or any(late)):
                    return
        self.say(e, b, "two phases could go by before this wait looks: it sees the parity of a phase only")

    @staticmethod
    def _last(x: Event, w: Form, b: synced.MBarrier) -> bool:
        """Whether an arrival is never for the next phase of that slot: it is made once, and early."""
        if x.index is None or not forms.is_number(x.index):
            return False
        gap = least(forms.subtract(w, x.index), ())
        return gap is not None and gap > -b.slots

    def bytes(self) -> None:
        for e in (*self.loads, *(x for found in self.arrivals.values() for x in found)):
            owed = e.counters.get(((), (OWED, e.barrier.uid)))
            if e.kind is ARRIVE and owed != forms.ZERO:
                self.say(e, e.barrier, "the expected byte count does not match the bytes loaded")
            if e.kind is LOAD and (owed is None or not forms.is_number(owed) or owed[0] <= 0):
                self.say(e, e.barrier, "bytes are loaded that are not expected")
        for known, _ in self.ends():
            for uid, b in self.rings.barriers.items():
                if known.get(((), (OWED, uid)), forms.ZERO) != forms.ZERO:
                    self.say(None, b, "the expected byte count does not match the bytes loaded")

    def ends(self) -> list[tuple[dict, list]]:
        return [*(end for _, end in self.rings.role_ends), (self.rings.values.known, self.rings.values.facts)]

    def ends_of(self, uid: int, events: list[Event]) -> list[tuple[dict, list]]:
        """How those end who wait for an mbarrier, or arrive.  Where all of that stands in roles: the roles of splits in
        which some of it stands.  A split without any changes neither count; and what it knows of them is less, since
        roles have met before it.
        """
        if not any(e.in_role for e in events):
            return self.ends()[-1:]
        every = not all(e.in_role for e in events)
        return [end for touched, end in self.rings.role_ends if every or uid in touched]

    def circles(self) -> None:
        """Nobody waits for what can only come after."""
        for cls in circles(self):
            b = self.rings.barriers[cls[1]]
            self.say(self.arrivals[cls][0], b, "this arrival may wait, by way of others, for itself", True)

    def reached(self) -> None:
        """Every phase that is waited for is one that all arrive for: at the end, they have arrived as often."""
        for uid, b in self.rings.barriers.items():
            waited = [e for e in self.waits if e.barrier.uid == uid]
            if not waited or uid in self.rings.turns:
                continue
            arrived = [e for c in self.of[uid] for e in self.arrivals[c]]
            ends = self.ends_of(uid, [*waited, *arrived])
            for c in self.of[uid]:
                if not self.enough(uid, c, ends):
                    self.say(waited[0], b, "it is not shown that as many arrive as are waited for", True)

    def enough(self, uid: int, c: tuple, ends: list) -> bool:
        """In each role that waits, against each that arrives: the same counter of the program bounds both."""
        key, count = ((), (WAITED, uid)), ((), c[:-1])
        waits = [(k, f) for k, f in ends if k.get(key, forms.number(-1)) != forms.number(-1)]
        comes = [(k, f) for k, f in ends if k.get(count, forms.ZERO) != forms.ZERO]
        if not comes:
            return not waits
        counters: list[CounterKey | None] = [None, *(k for k in self.rings.followed if isinstance(k[1], int))]
        for known, facts in waits:
            fine = False
            for v in counters:
                if v is not None and not self.rings.same_steps(v[1]):
                    continue
                high = most(apart(known, key, v), facts)
                lows = [least(apart(k, count, v), f) for k, f in comes]
                if high is not None and None not in lows and all(high + 1 <= low for low in lows if low is not None):
                    fine = True
            if not fine:
                return False
        return True

    # ---- pairs ----

    def close(self) -> list[Open]:
        """What stays open.  Pairs that differ in nothing but how many iterations lie between are asked about at once:
        in most cases that does not matter.
        """
        groups: dict[tuple, list[tuple[Open, State]]] = {}
        for pair, state in self.rings.left.values():
            carried = frozenset(loop for loop, _, _ in pair.ages if loop[0] != START)
            known = self.known(pair, state)
            key = (pair.first.key, pair.second.key, pair.why, carried, known.own, known.rows, known.wide)
            groups.setdefault(key, []).append((pair, state))
        found = []
        for same in groups.values():
            loose = _whenever([pair for pair, _ in same])
            apart = loose.ages or loose.first is not loose.second  # else it is one access, made once
            if len(same) > 1 and apart and self.open(loose, same[0][1]) is None:
                continue
            for pair, state in same:
                meeting = self.open(pair, state)
                if meeting is not None:
                    found.append(replace(pair, meeting=meeting))
        return found

    @staticmethod
    def known(pair: Open, state: State) -> Reach:
        return state.over if pair.why is ORDER else state.fenced

    def open(self, pair: Open, state: State) -> MeetingThreads | None:
        """Who meets, though no phase and no barrier orders it."""
        a, b = pair.first, pair.second
        if a is b and not pair.ages:
            return None
        reach = self.known(pair, state)
        local = a.space is Space.SHARED and (self.rings.cluster == 1 or a.rank is None or b.rank is None)
        ways = []
        for way in (*self.ways(a, b, False), *self.ways(b, a, True)):
            left = [one for one in way if not _impossible(one, local)]
            if not left:
                return None
            ways.append(left)
        plain = [way[0] for way in ways if len(way) == 1]
        several = [way for way in ways if len(way) > 1][:MOST_WAYS]
        own = bool(a.made & b.made & ~reach.own)
        for chosen in product(*several):
            besides = _all([*plain, *chosen])
            found = self.rings.questions.meets(a, b, pair.ages, own, reach.rows, reach.wide, besides)
            if found is not None:
                return found
        return None

    def ways(self, a: OrderSite, b: OrderSite, swapped: bool) -> Iterator[list[Besides]]:
        """By which phases `a` may come before `b`: of each, what holds where it does not, as alternatives."""
        fence = b.line.proxy and not a.line.proxy
        counts, theirs = a.extra.get("counts", {}), b.extra.get("counts", {})
        for uid in self.sound:
            waited = theirs.get(((), (WAITED, uid)))
            if waited is None or waited == forms.number(-1):
                continue
            wide = self.rings.barriers[uid].everywhere
            loaded = a.extra.get("loaded")
            if loaded is not None and loaded[1] is not None and loaded[0] in self.sound:
                d = self.told[PHASE, uid].get((PHASE, loaded[0]))
                if d is not None:
                    yield [_not(loaded[1], waited, d, swapped, wide or loaded[0] == uid)]
                continue
            if a.line.begun and not a.line.commits:
                continue
            for c in self.arrivals:
                d = self.told[PHASE, uid].get(c)
                if d is None or c[1] not in self.sound:
                    continue
                lag = self.rings.lags.get((a.key, c, FENCED if fence else OVER))
                count = counts.get(((), c[:-1]))
                if lag is None or count is None:
                    continue
                across = wide or self.rings.barriers[c[1]].everywhere
                found = [_not(count, waited, d, swapped, across)]
                if lag:
                    usable = [(counts[k], n) for k, n in lag.items() if k in counts and n < NEVER]
                    parts = [_not(forms.add(x, forms.number(n)), waited, d, swapped, across) for x, n in usable]
                    if not parts:
                        continue  # no arrival is late enough
                    found.append(_all(parts))
                yield found


def _whenever(pairs: list[Open]) -> Open:
    """All of these, which go back in the same loops: at least as many iterations, in each, as one of them."""
    least: dict[tuple, int] = {}
    for loop, d, _ in (age for pair in pairs for age in pair.ages if age[0][0] != START):
        least[loop] = min(least.get(loop, d), d)
    return replace(pairs[0], ages=tuple((loop, d, False) for loop, d in least.items()))


def _not(index: Form, waited: Form, d: int, swapped: bool, across: bool) -> Besides:
    """index - (waited + d) - 1 >= 0: who has waited for that does not know of the index."""
    back = forms.times(waited, -1)
    one = (back, index, -d - 1) if swapped else (index, back, -d - 1)
    return (one,), (one,) if across else ()


def _impossible(one: Besides, local: bool) -> bool:
    """Whether it holds of no two: for threads of one block, and of different ones unless these cannot meet."""
    never = [any(_number(forms.add(x, y), n) for x, y, n in part) for part in one]
    return never[0] and (local or never[1])


def _number(x: Form, n: int) -> bool:
    return forms.is_number(x) and x[0] + n < 0


def _sure(latest: Form, x: Form, lag: int, facts: tuple) -> bool:
    known = least(forms.subtract(latest, x), facts)
    return lag < NEVER and known is not None and known >= lag


def _all(parts: list[Besides]) -> Besides:
    return tuple(x for p in parts for x in p[0]), tuple(x for p in parts for x in p[1])
