"""Pairs that phases of mbarriers order.

Input: a walk that is over, its `Events`, and the mbarriers that keep the rules.  Output: the pairs that stay open.
Invariant: a pair is closed only by a phase of an mbarrier of which all rules are shown.  Non-goals: walking the
program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir.types import BLOCK1, GRID1, Space
from snap.prove.order.kinds import FENCED, ORDER, OVER, PHASE, START, WAITED
from snap.prove.order.mbarriers import NEVER, Events
from snap.prove.order.pairs import Open
from snap.prove.order.reach import Reach, State
from snap.prove.order.sites import Besides, MeetingThreads, OrderSite
from snap.prove.order.walk import OrderWalk

MOST_WAYS = 5  # that have alternatives, each of which is asked about with all of the others


class Phases:
    """sound: the mbarriers, by number, that keep the rules."""

    def __init__(self, walk: OrderWalk, events: Events, sound: set[int]):
        self.events, self.sound, self.lags = events, sound, walk.mbarriers.lags
        self.questions, self.left, self.cluster = walk.pairs.questions, walk.pairs.left, walk.here.threads.cluster

    def close(self) -> list[Open]:
        """Return what stays open.  Pairs that differ in nothing but how many iterations lie between are asked about at
        once: in most cases that does not matter.
        """
        groups: dict[tuple, list[tuple[Open, State]]] = {}
        for pair, state in self.left.values():
            carried = frozenset(loop for loop, _, _ in pair.ages if loop[0] != START)
            known = _known(pair, state)
            key = (pair.first.key, pair.second.key, pair.why, carried, known.own, known.rows, known.wide)
            groups.setdefault(key, []).append((pair, state))
        found = []
        for same in groups.values():
            loose = _whenever([pair for pair, _ in same])
            if len(same) > 1 and self.open(loose, same[0][1]) is None:
                continue
            for pair, state in same:
                meeting = self.open(pair, state)
                if meeting is not None:
                    found.append(replace(pair, meeting=meeting))
        return found

    def open(self, pair: Open, state: State) -> MeetingThreads | None:
        """Return who meets, though no phase and no barrier orders it."""
        a, b = pair.first, pair.second
        reach = _known(pair, state)
        local = a.space is Space.SHARED and (self.cluster == 1 or a.rank is None or b.rank is None)
        ways = []
        for way in (*self.ways(a, b, False), *self.ways(b, a, True)):
            left = [one for one in way if not self.impossible(pair, one, local)]
            if not left:
                return None
            ways.append(left)
        plain = [way[0] for way in ways if len(way) == 1]
        several = [way for way in ways if len(way) > 1][:MOST_WAYS]
        own = bool(a.made & b.made & ~reach.own)
        for chosen in product(*several):
            besides = _all([*plain, *chosen])
            found = self.questions.meets(a, b, pair.ages, own, reach.rows, reach.wide, besides)
            if found is not None:
                return found
        return None

    def impossible(self, pair: Open, one: Besides, local: bool) -> bool:
        """Return whether it holds of no two: for threads of one block, and of different ones unless these cannot meet.
        What two threads count, in two iterations, is one number only where both agree about it.
        """
        for part, shared in zip(one, (BLOCK1,) if local else (BLOCK1, GRID1)):
            sums = ((self.questions.together(pair.first, pair.second, pair.ages, shared, x, y), n) for x, y, n in part)
            if not any(_number(x, n) for x, n in sums):
                return False
        return True

    def ways(self, a: OrderSite, b: OrderSite, swapped: bool) -> Iterator[list[Besides]]:
        """Yield the phases by which `a` may come before `b`: of each, what holds where it does not, as alternatives."""
        fence = b.line.proxy and not a.line.proxy
        for uid in self.sound:
            waited = b.counts.get(((), (WAITED, uid)))
            if waited is None or waited == forms.number(-1):
                continue
            wide, told = self.events.barriers[uid].everywhere, self.events.told[PHASE, uid]
            if a.loaded is not None and a.loaded[1] is not None and a.loaded[0] in self.sound:
                d = told.get((PHASE, a.loaded[0]))
                if d is not None:
                    yield [_not(a.loaded[1], waited, d, swapped, wide or a.loaded[0] == uid)]
                continue
            if a.line.begun and not a.line.commits:
                continue
            for c in self.events.arrivals:
                d = told.get(c)
                if d is None or c[1] not in self.sound:
                    continue
                if any(_walked_before(e.role, a.role) for e in self.events.arrivals[c]):
                    continue  # such an arrival was not asked whether it tells of this access
                lag = self.lags.get((a.key, c, FENCED if fence else OVER))
                count = a.counts.get(((), c[:-1]))
                if lag is None or count is None:
                    continue
                across = wide or self.events.barriers[c[1]].everywhere
                found = [_not(count, waited, d, swapped, across)]
                if lag:
                    usable = [(a.counts[k], n) for k, n in lag.items() if k in a.counts and n < NEVER]
                    parts = [_not(forms.add(x, forms.number(n)), waited, d, swapped, across) for x, n in usable]
                    if not parts:
                        continue  # no arrival is late enough
                    found.append(_all(parts))
                yield found


def _walked_before(one: tuple, other: tuple) -> bool:
    """Return whether the walk has come to one role before the other one, of threads that go through both at a time."""
    for x, y in zip(one, other):
        if x != y:
            return isinstance(x, tuple) and isinstance(y, tuple) and x[0] == y[0] and x[1] < y[1]
    return False


def _known(pair: Open, state: State) -> Reach:
    return state.over if pair.why is ORDER else state.fenced


def _whenever(pairs: list[Open]) -> Open:
    """Join pairs that go back in the same loops: at least as many iterations, in each, as one of them."""
    least: dict[tuple, int] = {}
    for loop, d, _ in (age for pair in pairs for age in pair.ages if age[0][0] != START):
        least[loop] = min(least.get(loop, d), d)
    return replace(pairs[0], ages=tuple((loop, d, False) for loop, d in least.items()))


def _not(index: Form, waited: Form, d: int, swapped: bool, across: bool) -> Besides:
    """index - (waited + d) - 1 >= 0: who has waited for that does not know of the index."""
    back = forms.times(waited, -1)
    one = (back, index, -d - 1) if swapped else (index, back, -d - 1)
    return (one,), (one,) if across else ()


def _number(x: Form, n: int) -> bool:
    return forms.is_number(x) and x[0] + n < 0


def _all(parts: list[Besides]) -> Besides:
    return tuple(x for p in parts for x in p[0]), tuple(x for p in parts for x in p[1])
