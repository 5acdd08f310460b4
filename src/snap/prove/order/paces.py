"""Counters of the program and of our own, side by side: by how much they differ, wherever the walk is.

Input: the counters that are followed (`order/mbarriers.py` says which), and what they are at the ends of paths and of
iterations.  Output: bounds on their differences where paths meet, at the top of every iteration and behind loops; and
which of them all roles count alike.  Invariant: a bound holds in every iteration because it holds at first and each
iteration keeps it.  Non-goals: what the differences are good for.
"""

from __future__ import annotations

from collections.abc import Callable

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir.types import BLOCK1, CLUSTER1
from snap.prove.order.counts import Bounds, CounterKey, apart, facts_of, wider
from snap.prove.order.outline import alike, given, paths, splits, trips_of
from snap.prove.order.point import WalkPoint

End = tuple[dict, list]  # of a path: what is known of variables, and facts
DifferenceEnds = dict[tuple[CounterKey, CounterKey | None], tuple[int | None, int | None]]
MOST_TRIALS = 6


class Paces:
    """followed: counters, by name; relations: by loop, how far they are apart at the top of every iteration.  splits:
    the splits of the block, as roles; roles: all of them.
    """

    def __init__(self, here: WalkPoint):
        self.here, self.values = here, here.values
        self.followed: list[CounterKey] = []
        self.relations: dict[tuple, DifferenceEnds] = {}
        self.splits = [[list(paths(case.body)) for case in s.cases] for s in splits(here.kernel.body)]
        self.roles = [role for cases in self.splits for role in cases]
        self.agreed = CLUSTER1 if any(b.everywhere for b in here.kernel.mbarriers) else BLOCK1
        self._steps: dict[tuple, bool] = {}

    def follow(self, name: tuple, start: int) -> None:
        key = ((), name)
        if key not in self.followed:
            self.followed.append(key)
            self.values.known[key] = forms.number(start)

    def at(self) -> dict[CounterKey, Form]:
        """Return what the counters are here."""
        return {key: self.values.known[key] for key in self.followed if key in self.values.known}

    def joined(self, changed: list, ends: list[End]) -> None:
        """Paths meet: keep what holds of the counters on all of them."""
        changed = [key for key in self.followed if key in changed]
        paths = [(known, Bounds(facts)) for known, facts in ends] if changed else []
        for key in changed:
            same = False
            for other in self.partners(key, changed):
                lows = [bounds.least(apart(known, key, other)) for known, bounds in paths]
                highs = [bounds.most(apart(known, key, other)) for known, bounds in paths]
                low = None if None in lows else min(lows)  # type: ignore[type-var]
                high = None if None in highs else max(highs)  # type: ignore[type-var]
                same = self.bounded(key, other, low, high, same)

    def partners(self, key: CounterKey, changed: list) -> list:
        """Return what a counter is compared with: nothing, and every other that is known already."""
        before = changed[: changed.index(key)] if key in changed else []
        rest = [k for k in self.followed if k not in changed and k in self.values.known]
        return [None, *before, *rest]

    def bounded(self, key: CounterKey, other: CounterKey | None, low: int | None, high: int | None, same: bool) -> bool:
        """Note a bound; return whether the counter is another one and a number: already (`same`), or now."""
        if low is not None and low == high and not same:
            base = forms.ZERO if other is None else self.values.known[other]
            self.values.known[key] = forms.add(base, forms.number(low))
            return True
        for fact in facts_of(self.values.known, key, other, low, high):
            if fact[1] and fact not in self.values.facts:
                self.here.assume(fact)
        return same

    # ---- loops ----

    def invariants(self, keys: list[CounterKey], loop: tuple, head: dict, tried: Callable[[dict], list]) -> None:
        """Find by how much counters differ at the top of every iteration: what holds at first, as far as iterations
        keep it.  keys: counters that the loop changes; tried: walks one iteration and returns its ends.
        """
        if not keys:
            return
        found: DifferenceEnds = {}
        first = Bounds(self.values.facts)
        head[trips_of(loop)] = forms.ZERO
        for k, key in enumerate(keys):
            for other in [None, trips_of(loop), *keys[:k], *(x for x in self.followed if x not in keys and x in head)]:
                x = apart(head, key, other)
                found[key, other] = (first.least(x), first.most(x))
        for trial in range(MOST_TRIALS):
            self.relations[loop] = found
            new = {pair: (low, high) for pair, (low, high) in found.items()}
            for tokens, known, facts in tried(head):
                if tokens is None:
                    continue
                bounds = Bounds(facts)
                for (key, other), (low, high) in new.items():
                    if (low, high) != (None, None):
                        x = apart(known, key, other)
                        new[key, other] = wider((low, high), bounds.least(x), bounds.most(x), trial)
            if new == found:
                return
            found = new
        self.relations[loop] = {}

    def as_counted(self, keys: list, loop: tuple) -> list[Form]:
        """Return what is known of these counters at the top of an iteration, or behind the loop."""
        before, self.values.facts = self.values.facts, []
        for key in (k for k in self.followed if k in keys):
            same = False
            for (one, other), (low, high) in self.relations.get(loop, {}).items():
                if one == key and (low, high) != (None, None) and (other is None or other in self.values.known):
                    same = self.bounded(key, other, low, high, same)
        found, self.values.facts = self.values.facts, before
        return found

    # ---- roles ----

    def same_steps(self, uid: int, loop: tuple = ()) -> bool:
        """Return whether every role that counts a variable does so in the same loops and branches, so that all end with
        the same number; and comes to the top of each iteration of a loop, which it has once, with the same number.
        """
        if (uid, loop) not in self._steps:
            using = [role for role in self.roles if any(given(s, uid) is not None for _, s in role)]
            self._steps[uid, loop] = alike(using, uid, set(), self.here.ranges, self.agreed, loop)
        return self._steps[uid, loop]

    def shared(self) -> list[CounterKey]:
        """Return the variables of the program that all roles count alike."""
        return [k for k in self.followed if isinstance(k[1], int) and self.same_steps(k[1])]

    def rising(self, loop: tuple) -> list[CounterKey]:
        """Return the variables that only grow, and that all roles have counted alike at the top of each iteration."""
        counts = [key for key in self.followed if isinstance(key[1], int) and key in self.here.growing]
        return [key for key in counts if self.same_steps(key[1], loop)]
