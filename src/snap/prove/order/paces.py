"""Counters of the program and of our own, side by side: by how much they differ, wherever the walk is.

Input: the counters that are followed (`order/mbarriers.py` says which), what they are at the ends of paths and of
iterations, and facts, forms that are not negative.  Output: the least that a difference of two unknowns can be, as far
as facts about differences tell; so bounds on the differences of counters where paths meet, at the top of every
iteration and behind loops; and which of them all roles count alike.  Invariant: what is said follows from the facts; a
bound holds in every iteration because it holds at first and each iteration keeps it.  Non-goals: what the differences
are good for, and arithmetic of anything but differences; isl is asked about the rest (`order/sites.py`).

A pipeline's fill, the slot that is given back next, how often a thread has arrived: each of them grows by one now and
then, and what matters is by how much one is behind the other, in every iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, CLUSTER1
from snap._compiler.ir.walk import variables, walk
from snap.prove.order.outline import alike, changing, given, paths, splits, trips_of
from snap.prove.order.point import WalkPoint

SumOfUnknowns = tuple[tuple[LinearAtom, int], ...]  # a sum of unknowns
CounterKey = tuple  # of a variable, or of a counter of ours
WINDOW = 64  # ends further from zero than this are no facts of a loop
FAR = 1 << 12  # what lies further apart is not followed


def _difference(x: Form) -> tuple[SumOfUnknowns, SumOfUnknowns, int]:
    """Two sums and a number: x is the first less the second, and the number."""
    return tuple(t for t in x[1] if t[1] > 0), tuple((a, -k) for a, k in x[1] if k < 0), x[0]


class Bounds:
    """Facts, as steps between sums; what follows from them is found once for each sum that is asked about."""

    def __init__(self, facts: Iterable[Form]):
        self.edges: dict[SumOfUnknowns, dict[SumOfUnknowns, int]] = {}
        self.known: dict[SumOfUnknowns, dict[SumOfUnknowns, int]] = {}
        for fact in facts:
            a, b, k = _difference(fact)  # a >= b - k
            self._edge(b, a, -k)
            self._counts(a)
            self._counts(b)

    def _edge(self, b: SumOfUnknowns, a: SumOfUnknowns, k: int) -> None:
        found = self.edges.setdefault(b, {})
        found[a] = max(found.get(a, -FAR), k)

    def _counts(self, node: SumOfUnknowns) -> None:
        """Add the edge that says that a number of iterations is not negative."""
        for term in node:
            if term[0][0] == forms.TRIP:
                self._edge(tuple(t for t in node if t is not term), node, 0)

    def least(self, x: Form) -> int | None:
        """Return the largest number that x is certainly not below; None where nothing is known."""
        first, second, c = _difference(x)
        if first == second:
            return c
        for node in (first, second):
            if node not in self.edges:
                self.edges[node] = {}
                self._counts(node)
                self.known = {}
        found = self.known.get(second)
        if found is None:
            found = self.known[second] = self._from(second)
        return found[first] + c if first in found else None

    def _from(self, start: SumOfUnknowns) -> dict[SumOfUnknowns, int]:
        far = {start: 0}
        todo = [start]
        steps = 40 * (len(self.edges) + 1)
        while todo and steps:
            b = todo.pop()
            steps -= 1
            for a, k in self.edges.get(b, {}).items():
                if far.get(a, -FAR) < far[b] + k < FAR:
                    far[a] = far[b] + k
                    todo.append(a)
        return far

    def most(self, x: Form) -> int | None:
        found = self.least(forms.times(x, -1))
        return None if found is None else -found


def least(x: Form, facts: Iterable[Form]) -> int | None:
    return x[0] if not x[1] else Bounds(facts).least(x)


def most(x: Form, facts: Iterable[Form]) -> int | None:
    return x[0] if not x[1] else Bounds(facts).most(x)


def apart(known: dict, key: CounterKey, other: CounterKey | None) -> Form:
    """Return how far the one is from the other, or from zero."""
    x = known.get(key)
    y = forms.ZERO if other is None else known.get(other)
    return (0, ((("nothing",), 1), (("else",), 1))) if x is None or y is None else forms.subtract(x, y)


def facts_of(known: dict, key: CounterKey, other: CounterKey | None, low: int | None, high: int | None) -> list[Form]:
    """State that it is between these ends, if they are near enough to be of use."""
    x = apart(known, key, other)
    found = []
    if low is not None and abs(low) < WINDOW:
        found.append(forms.subtract(x, forms.number(low)))
    if high is not None and abs(high) < WINDOW:
        found.append(forms.subtract(forms.number(high), x))
    return found


def wider(now: tuple, low: int | None, high: int | None, trip: int) -> tuple[int | None, int | None]:
    """Ends that hold of both; one that keeps moving is given up, so that a loop comes to rest."""
    a, b = now
    if a is not None and (low is None or low < a):
        a = None if low is None or trip > 2 else low
    if b is not None and (high is None or high > b):
        b = None if high is None or trip > 2 else high
    return a, b


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

    def same_values(self, exprs: Iterable[ir.Expr], numbers: Collection[int]) -> bool:
        """Return whether the roles in which these statements stand compute the same of expressions, in the same
        iteration of the same loops.  Each has its own copy of a variable: all of them count it alike, or none counts.
        """
        found = [*exprs]
        roles = [role for role in self.roles if any(s.number in numbers for _, s in role)]
        if any(changing(x) for e in found for x in walk(e)):
            return False
        for var in variables(*found):
            counts = {any(given(s, var.uid) is not None for _, s in role) for role in roles}
            if len(counts) > 1 or not self.same_steps(var.uid):
                return False
        return True

    def shared(self) -> list[CounterKey]:
        """Return the variables of the program that all roles count alike."""
        return [k for k in self.followed if isinstance(k[1], int) and self.same_steps(k[1])]

    def rising(self, loop: tuple) -> list[CounterKey]:
        """Return the variables that only grow, and that all roles have counted alike at the top of each iteration."""
        counts = [key for key in self.followed if isinstance(key[1], int) and key in self.here.growing]
        return [key for key in counts if self.same_steps(key[1], loop)]
