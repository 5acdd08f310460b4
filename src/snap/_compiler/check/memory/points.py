"""Follow threads of the first blocks through loops and conditions that constants and their own numbers decide.

Input: linear forms, and the steps on the way to an access: loops and conditions.  Output: `Points`, each a thread that
certainly takes that way, in one iteration of each loop; and what a form is for each of them.  Invariant: every point is
certain, whatever the arguments are: where something else decides, there is no answer.  Of long loops only the first
iterations are followed.  Non-goals: what two of them do to each other (certain.py).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from functools import partial

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.values import is_integer
from snap._compiler.ir import nodes as ir
from snap.record import record

MOST_POINTS = 1 << 11
HoldsAt = Callable[["Points"], "list[bool] | None"]  # for each point; None where they do not decide it

_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@record
class Counted:
    """A loop: its iterations, counted from zero, the distance of its bounds, its step.  left: it may end early, after
    the first iteration.
    """

    trip: LinearAtom
    distance: Form
    step: int
    left: bool


@record
class Tested:
    """A condition under which the way goes on."""

    holds: HoldsAt


WayStep = Counted | Tested
UNDECIDED = Tested(lambda points: None)


class Points:
    """given: what the unknowns are, at each point."""

    def __init__(self, given: dict[LinearAtom, list[int]]):
        self.given = given
        self.count = len(next(iter(given.values())))
        self.known: dict[Form, list[int] | None] = {}

    def of(self, f: Form) -> list[int] | None:
        """Evaluate a form at each point; None where they do not decide it."""
        if f not in self.known:
            self.known[f] = self._of(f)
        return self.known[f]

    def _of(self, f: Form) -> list[int] | None:
        total = [f[0]] * self.count
        for atom, k in f[1]:
            values = self._atom(atom)
            if values is None:
                return None
            total = [so_far + k * value for so_far, value in zip(total, values)]
        return total

    def _atom(self, atom: LinearAtom) -> Iterable[int] | None:
        match atom:
            case (forms.DIV, x, n):
                inner = self.of(x)
                return None if inner is None else [value // n for value in inner]
            case (forms.MUL, x, y) | (forms.XOR, x, y, _):
                left, right = self.of(x), self.of(y)
                if left is None or right is None:
                    return None
                return map(operator.mul if atom[0] == forms.MUL else operator.xor, left, right)
        return self.given.get(atom)

    def after(self, steps: Iterable[WayStep]) -> Points | None:
        """The points that take these steps; None where something else decides, or none does."""
        points = self
        for step in steps:
            taken = points.through(step)
            if taken is None or not taken.count:
                return None
            points = taken
        return points

    def through(self, step: WayStep) -> Points | None:
        """The points that take a step; None where something else decides."""
        if isinstance(step, Tested):
            holds = step.holds(self)
            return None if holds is None else self.where(holds)
        distance = self.of(step.distance)
        if distance is None:
            return None
        most = 1 if step.left else max(1, MOST_POINTS // max(self.count, 1))
        of = {d: range(min(most, len(range(0, d, step.step)))) for d in set(distance)}
        trips = [of[d] for d in distance]
        made = {
            atom: [value for value, each in zip(values, trips) for _ in each] for atom, values in self.given.items()
        }
        return Points({**made, step.trip: [trip for each in trips for trip in each]})

    def where(self, holds: list[bool]) -> Points:
        if all(holds):
            return self
        return Points({atom: list(itertools.compress(values, holds)) for atom, values in self.given.items()})


def holding(cond: ir.Expr, value: Callable[[ir.Expr], Form]) -> HoldsAt:
    """Say how a condition is decided at points.  value: the form of an integer."""
    match cond:
        case ir.Const(bool(truth)):
            return lambda points: [truth] * points.count
        case ir.Unary("not", inner):
            return partial(_negated, holding(inner, value))
        case ir.Logical(op, left, right):
            joined = operator.and_ if op == "and" else operator.or_
            return partial(_joined, joined, holding(left, value), holding(right, value))
        case ir.Compare(op, left, right) if is_integer(left.type):
            return partial(_compared, _COMPARED[op], forms.subtract(value(left), value(right)))
    return UNDECIDED.holds


def negated(holds: HoldsAt) -> HoldsAt:
    return partial(_negated, holds)


def _negated(holds: HoldsAt, points: Points) -> list[bool] | None:
    found = holds(points)
    return None if found is None else [not one for one in found]


def _joined(op: Callable[[bool, bool], bool], left: HoldsAt, right: HoldsAt, points: Points) -> list[bool] | None:
    a, b = left(points), right(points)
    return None if a is None or b is None else list(map(op, a, b))


def _compared(op: Callable[[int, int], bool], difference: Form, points: Points) -> list[bool] | None:
    found = points.of(difference)
    return None if found is None else [op(n, 0) for n in found]


def between(index: Form, size: int | None) -> HoldsAt:
    """Decide which units a case of a split is for: so many from the first on, or all from there."""

    def holds(points: Points) -> list[bool] | None:
        found = points.of(index)
        return None if found is None else [n >= 0 and (size is None or n < size) for n in found]

    return holds
