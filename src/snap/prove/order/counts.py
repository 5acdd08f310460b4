"""Bound the differences of counters, which is all that mbarriers need of arithmetic.

Input: facts, forms that are not negative.  Output: the least that a difference of two unknowns can be, as far as facts
about differences tell.  Invariant: what is said follows from the facts.  Non-goals: anything but differences; isl is
asked about the rest (`order/sites.py`).

A pipeline's fill, the slot that is given back next, how often a thread has arrived: each of them grows by one now and
then, and what matters is by how much one is behind the other, in every iteration.
"""

from __future__ import annotations

from collections.abc import Iterable

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom

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
