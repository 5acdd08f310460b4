"""The rules of mbarriers, shown of what the walk saw of them: what is wrong, and whose phases can be relied on.

Input: a walk that is over, and its `Events`.  Output: for each mbarrier, what is not shown of it (`Stuck`), and the
mbarriers of which all of RULES is shown (`sound`).  Invariant: as `order/mbarriers.py` says.  Non-goals: which pairs
phases order (`order/phases.py`).
"""

from __future__ import annotations

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import synced
from snap.prove.order.circles import circles
from snap.prove.order.kinds import ARRIVE, LOAD, OVER, OWED, PHASE, WAITED
from snap.prove.order.mbarriers import NEVER, Event, Events
from snap.prove.order.meetings import Stuck
from snap.prove.order.paces import End, apart, least, most
from snap.prove.order.turns import wrong
from snap.prove.order.walk import OrderWalk


class Rules:
    """sound: numbers of mbarriers whose phases are complete exactly when all have arrived; wrong: what is not shown."""

    def __init__(self, walk: OrderWalk, events: Events):
        self.walk, self.events = walk, events
        self.mbarriers = walk.mbarriers
        self.barriers = {uid: b for uid, b in events.barriers.items() if uid not in self.mbarriers.turns}
        self.wrong: dict[tuple, Stuck] = {}
        self.sound = set(self.barriers)
        for uid, turn in self.mbarriers.turns.items():
            why = wrong(walk.here.kernel, turn, walk.here.ranges)
            if why:
                self.wrong[turn.wait.span, uid, why] = Stuck(turn.wait.span, turn.barrier.name, why)
        for uid, b in self.barriers.items():
            arrivals = events.at(uid)
            for e in arrivals:
                if not e.in_turn:
                    self.say(e, b, "it is not shown that arrivals come slot after slot, each once")
            self.counted(b)
            self.not_early(b, arrivals)
            for e in events.waits_for(uid) if uid >= 0 else ():  # a named barrier has no parity
                self.parity(e, b)
        self.bytes()
        self.circles()
        self.reached()

    def say(self, e: Event | None, b: synced.MBarrier, why: str, sound: bool = False) -> None:
        """Note what is wrong; sound: what is complete is complete, though it may never be."""
        if not sound:
            self.sound.discard(b.uid)
        span = b.span if e is None else e.span
        self.wrong.setdefault((span, b.uid, why), Stuck(span, b.name, why))

    def counted(self, b: synced.MBarrier) -> None:
        classes, arrivals = self.events.of[b.uid], self.events.arrivals
        everywhere = any(e.barrier.everywhere for e in self.events.at(b.uid))
        times = self.walk.here.threads.cluster if everywhere else 1
        total = sum(arrivals[c][0].units for c in classes) * times
        mixed = any(e.barrier.everywhere is not b.everywhere for e in self.events.at(b.uid))
        named: dict[tuple, int] = {}
        overlap = False
        for c in classes:
            overlap = overlap or bool(named.get(c[:-1], 0) & c[-1])
            named[c[:-1]] = named.get(c[:-1], 0) | c[-1]
        if total != b.count or overlap or mixed:
            first = arrivals[classes[0]][0] if classes else None
            self.say(first, b, f"{total} arrive for a phase that counts {b.count}")

    def not_early(self, b: synced.MBarrier, arrivals: list[Event]) -> None:
        loads = [e for e in self.events.loads if e.barrier.uid == b.uid]
        if b.count == 1 and not loads:
            return
        for e in (*arrivals, *loads):
            if e.index is None or self.events.knows(e, (PHASE, b.uid)) < -b.slots:
                what = "loads" if e.kind is LOAD else "arrives"
                self.say(e, b, f"who {what} here may not know that the phase before is complete")

    def parity(self, e: Event, b: synced.MBarrier) -> None:
        """Whichever thread waits here, one that the next phase of the slot takes comes after this wait."""
        facts, w = e.facts, e.index
        assert w is not None
        if all(_last(x, w, b) for x in self.events.at(b.uid)):
            return
        for c in self.events.of[b.uid]:
            for d in self.events.arrivals:
                step = 0 if c == d else self.events.before[c].get(d, -NEVER)
                lag = self.mbarriers.lags.get((e.key, d, OVER))
                count = e.counters.get(((), d[:-1]))
                if lag is None or count is None or step <= -NEVER:
                    continue
                latest = forms.add(w, forms.number(b.slots + step))
                after = least(forms.subtract(latest, count), facts)
                late = [_sure(latest, e.counters[k], n, facts) for k, n in lag.items() if k in e.counters]
                if after is not None and after >= 0 and (not lag or any(late)):
                    return
        self.say(e, b, "two phases could go by before this wait looks: it sees the parity of a phase only")

    def bytes(self) -> None:
        for e in (*self.events.loads, *(x for found in self.events.arrivals.values() for x in found)):
            owed = e.counters.get(((), (OWED, e.barrier.uid)))
            if e.kind is ARRIVE and owed != forms.ZERO:
                self.say(e, e.barrier, "the expected byte count does not match the bytes loaded")
            if e.kind is LOAD and (owed is None or not forms.is_number(owed) or owed[0] <= 0):
                self.say(e, e.barrier, "bytes are loaded that are not expected")
        for known, _ in [*(end for _, end in self.mbarriers.role_ends), self.end]:
            for uid, b in self.events.barriers.items():
                if known.get(((), (OWED, uid)), forms.ZERO) != forms.ZERO:
                    self.say(None, b, "the expected byte count does not match the bytes loaded")

    @property
    def end(self) -> End:
        """Return what is known at the end of the kernel."""
        return self.walk.values.known, self.walk.values.facts

    def ends_of(self, uid: int) -> list[End]:
        """Return how those end who wait for an mbarrier, or arrive.  Where all of that is in roles, these are the roles
        of splits in which some of it is.  A split without any changes neither count; and what it knows of them is less,
        since roles have met before it.
        """
        events = [*self.events.waits_for(uid), *self.events.at(uid)]
        if not any(e.in_role for e in events):
            return [self.end]
        every = not all(e.in_role for e in events)
        return [end for touched, end in self.mbarriers.role_ends if every or uid in touched]

    def circles(self) -> None:
        """No thread waits for what can only come after."""
        for cls in circles(self.events, self.walk):
            b = self.events.barriers[cls[1]]
            self.say(self.events.arrivals[cls][0], b, "this arrival may wait, by way of others, for itself", True)

    def reached(self) -> None:
        """Every phase that is waited for is one that all arrive for: at the end, they have arrived as often."""
        for uid, b in ((uid, b) for uid, b in self.barriers.items() if uid >= 0):  # else `parts_match` has asked
            waited, ends = self.events.waits_for(uid), self.ends_of(uid)
            for c in self.events.of[uid] if waited else ():
                if not self.enough(uid, c, ends):
                    self.say(waited[0], b, "it is not shown that as many arrive as are waited for", True)

    def enough(self, uid: int, c: tuple, ends: list[End]) -> bool:
        """In each role that waits, against each that arrives, the same counter of the program bounds both."""
        key, count = ((), (WAITED, uid)), ((), c[:-1])
        waits = [(k, f) for k, f in ends if k.get(key, forms.number(-1)) != forms.number(-1)]
        comes = [(k, f) for k, f in ends if k.get(count, forms.ZERO) != forms.ZERO]
        if not comes:
            return not waits
        for known, facts in waits:
            for v in (None, *self.walk.paces.shared()):
                high = most(apart(known, key, v), facts)
                lows = [least(apart(k, count, v), f) for k, f in comes]
                if high is not None and all(low is not None and high + 1 <= low for low in lows):
                    break
            else:
                return False
        return True

    def all_seen(self, uid: int) -> bool:
        """Return whether some role has waited for all that arrived at an mbarrier."""
        ends, counts = self.ends_of(uid), [((), c[:-1]) for c in self.events.of[uid]]
        return all(any(self.mbarriers.waited_for(uid, count, end, ends) for end in ends) for count in counts)


def _last(x: Event, w: Form, b: synced.MBarrier) -> bool:
    """Return whether an arrival is never for the next phase of that slot: it is made once, and early."""
    if x.index is None or not forms.is_number(x.index):
        return False
    gap = least(forms.subtract(w, x.index), ())
    return gap is not None and gap > -b.slots


def _sure(latest: Form, x: Form, lag: int, facts: tuple) -> bool:
    known = least(forms.subtract(latest, x), facts)
    return lag < NEVER and known is not None and known >= lag
