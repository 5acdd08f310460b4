"""Circles of waits: no thread waits for what can only come after.

Input: who arrives at mbarriers, and what each has waited for by then (`order/mbarriers.py`).  Output: the kinds of
arrivals that may wait, by way of others, for themselves.  Invariant: where none is named, every thread that can be
held up is held up by what comes without it.  Non-goals: whether as many arrive as are waited for (`order/rules.py`).

Whoever is held up waits for a phase, and so for an arrival (or load) that is not yet made; who is to make it is held
up, too, by a wait that stands before it, and so on.  Each step leads from an arrival for an index i to one for an index
j, and of each kind of step the most that j - i can be is known.  Where around every circle of kinds of arrivals this
adds up to less than zero, indices become smaller and smaller, which they cannot for ever: so no thread is held up.

That fits mbarriers that go on at one pace.  Those of a kernel that takes one tile after the other need not: stages of
its operands pass by k, tiles leave by pieces.  So arrivals are compared by the iteration t of a loop that all roles go
through (`CommonLoop`), and by the index from its top on, i less what a counter v of the program was there.  That needs

  one loop    every arrival stands in it; all roles have it once, in the same loops and branches, on which the block (or
              cluster) agrees, and leave no iteration early
  one count   all roles count v alike, as much of it before the loop as the others; and it only grows
  no later    what has been waited for, w, has been arrived for by the end of iteration t: w < v + h where the arrival
              is made, and who arrives has done so at least v + h times at the end of every iteration

Then a step leads to the same iteration or to an earlier one: for certain to an earlier one where w < v + h for what v
was at the top of t, and whoever arrives has done so at least v + h times at the top of every iteration.  A circle that
can go on for ever has steps within one iteration alone, and it is theirs that must add up to less than zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.analysis.linear import forms
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.walk import statements
from snap.prove.order.kinds import OWED, WAITED
from snap.prove.order.mbarriers import NEVER, Event, Events
from snap.prove.order.paces import CounterKey, apart, least, most
from snap.prove.order.walk import OrderWalk

Steps = dict[tuple, dict[tuple, int]]  # by kind of arrival, those that it waits for: the most by which indices grow


def circles(events: Events, walk: OrderWalk) -> list[tuple]:
    """Return the kinds of arrivals that are in a circle which may go on for ever."""
    found = _around(_at_one_pace(events))
    for common in _common_loops(walk) if found else ():
        steps = InIterations(events, walk, common).steps()
        if steps is not None and not _around(steps):
            return []
    return found


def _at_one_pace(events: Events) -> Steps:
    steps: Steps = {}
    for cls, uid, waited in _waiting(events):
        for other in events.of[uid]:
            steps.setdefault(cls, {})[other] = max(e.needs[uid] for e in waited)
    return steps


def _waiting(events: Events) -> Iterator[tuple[tuple, int, list[Event]]]:
    """Yield kinds of arrivals, each with an mbarrier that is waited for before; and those arrivals, and loads that the
    phase takes, before which it is.
    """
    for cls, found in events.arrivals.items():
        made = [*found, *(e for e in events.loads if e.barrier.uid == cls[1])]
        for uid in events.barriers:
            waited = [e for e in made if e.counters.get(((), (WAITED, uid))) != forms.number(-1)]
            alone = uid in events.unheard and cls[1] == uid  # which order/turns.py has asked about
            if waited and not alone:
                yield cls, uid, waited


def _around(steps: Steps) -> list[tuple]:
    """From where a way leads back on which indices do not become smaller."""
    far = {cls: dict(found) for cls, found in steps.items()}
    for k in far:
        for i in far:
            for j in far:
                if k in far[i] and j in far[k]:
                    far[i][j] = max(far[i].get(j, -NEVER), min(far[i][k] + far[k][j], NEVER))
    return [cls for cls in far if far[cls].get(cls, -NEVER) >= 0]


# ---- a loop that all roles go through ----


class CommonLoop:
    """One such loop.  label: it and what is around it, the same in all roles; loops: by what the walk calls it, the
    variables that are given values in its role.
    """

    def __init__(self, label: tuple, loops: dict[tuple, set[int]]):
        self.label, self.loops = label, loops

    def around(self, e: Event) -> bool:
        return any(loop in self.loops for loop in e.tops)

    def of(self, e: Event) -> tuple:
        """Return what the walk calls it in the role of this event, which stands in it."""
        return next(loop for loop in e.tops if loop in self.loops)

    def counts(self, e: Event, base: CounterKey) -> bool:
        """Return whether the role of this event is one of those that count."""
        return base[1] in self.loops[self.of(e)]


def _common_loops(walk: OrderWalk) -> Iterator[CommonLoop]:
    """Yield those of the roles of one split that no iteration leaves early, outer ones first."""
    for cases in walk.paces.splits:
        found: dict[tuple, dict[tuple, set[int]]] = {}
        left = set()
        for role in cases:
            counted = {v.uid for _, s in role for v in assigned(s)}
            for path, s in role:
                if isinstance(s, ir.For):
                    label = (*path, (s.var, s.start, s.stop, s.step))
                    found.setdefault(label, {})[(), s.number, ()] = counted
                    if any(isinstance(x, (ir.Break, ir.Continue, ir.Return)) for x in statements(s.body)):
                        left.add(label)
        yield from (CommonLoop(label, loops) for label, loops in found.items() if label not in left)


class InIterations:
    """Steps within one iteration of a common loop.  bases: by mbarrier, the counter that arrivals are compared by."""

    def __init__(self, events: Events, walk: OrderWalk, common: CommonLoop):
        self.events, self.common, self.rounds = events, common, walk.loops.rounds
        self.paces, self.needed = walk.paces, walk.mbarriers.needed
        self.bases: dict[int, CounterKey] = {}

    def steps(self) -> Steps | None:
        """Return the steps; None where some may lead to a later iteration."""
        loads = self.events.loads
        made = [*loads, *(e for found in self.events.arrivals.values() for e in found)]
        if not all(map(self.common.around, made)) or any(map(self._owes, loads)):
            return None
        for _, uid, waited in _waiting(self.events):
            for base in [self.bases[uid]] if uid in self.bases else self.paces.rising(self.common.label):
                if self._no_later(uid, waited, base):
                    self.bases[uid] = base
                    break
            else:
                return None
        steps: Steps = {}
        for cls, uid, waited in _waiting(self.events):
            for other in self.events.of[uid]:
                within = [e for e in waited if not self._earlier(e, uid, other)]
                if within:
                    steps.setdefault(cls, {})[other] = max(self._further(e, uid) for e in within)
        return steps

    def _owes(self, e: Event) -> bool:
        """Return whether loads of a phase may come in a later iteration than the arrival that expects them."""
        known, _ = self.rounds[self.common.of(e)][True]
        return known.get(((), (OWED, e.barrier.uid))) != forms.ZERO

    def _no_later(self, uid: int, waited: list[Event], base: CounterKey) -> bool:
        """Return whether all that has been waited for has been arrived for at the end of the same iteration."""
        if not all(self.common.counts(e, base) for e in (*waited, *self.events.at(uid))):
            return False
        highs = [most(apart(e.counters, self.needed(uid), base), e.facts) for e in waited]
        lows = [self._count(other, base, end=True) for other in self.events.of[uid]]
        return all(high is not None and low is not None and high < low for high in highs for low in lows)

    def _earlier(self, e: Event, uid: int, other: tuple) -> bool:
        """Return whether what has been waited for has been arrived for at the top of the iteration."""
        base = self.bases[uid]
        low = self._count(other, base, end=False)
        high = most(apart(self._at_top(e, base), self.needed(uid), base), e.facts)
        return low is not None and high is not None and high < low

    def _further(self, e: Event, uid: int) -> int:
        """Return by how much the index that is waited for is larger, each counted from the top of the iteration on."""
        mine, base = self.bases.get(e.barrier.uid), self.bases[uid]
        if e.index is None or mine is None:
            return NEVER
        there = apart(self._at_top(e, base), self.needed(uid), base)
        top = e.tops[self.common.of(e)].get(mine)
        if top is None:
            return NEVER
        found = most(forms.subtract(there, forms.subtract(e.index, top)), e.facts)
        return NEVER if found is None else found

    def _at_top(self, e: Event, base: CounterKey) -> dict:
        """Return what is known at an arrival, but of the counter what it was at the top of the iteration."""
        top = e.tops[self.common.of(e)].get(base)
        return {**{k: x for k, x in e.counters.items() if k != base}, **({} if top is None else {base: top})}

    def _count(self, cls: tuple, base: CounterKey, end: bool) -> int | None:
        """Return how much more often arrivals are made than the counter says, at least, in every iteration: at its top
        or end.
        """
        found = []
        for e in self.events.arrivals[cls]:
            known, facts = self.rounds[self.common.of(e)][end]
            found.append(least(apart(known, ((), cls[:-1]), base), facts))
        return None if None in found else min(found)  # type: ignore[type-var]
