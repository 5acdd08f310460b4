"""What a function's text tells of a value, wherever in it one asks: what divides it, whether it can be negative, which
way it moves in a loop.

Input: integer expressions, and the first values of variables that keep them.  Output: numbers and truth values.
Invariant: every answer errs on the safe side: a divisor of 1, a value that may be negative, a way that is not told.
Powers of two in a divisor hold whatever wraps.  Non-goals: what holds only where a condition does, or after some
statement (analysis/linear/values.py, with a stage's own walk).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from snap._compiler.analysis.evaluate import function, is_integer
from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.values import MOST_UNITS, RULES, Frame, Linear, Position, Values, form, lies_in
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.integers import Range
from snap._compiler.ir.types import THREAD1
from snap._compiler.ir.walk import statements

FirstValue = tuple[ir.Expr, ...]  # what a variable is: its value, or the bounds of its loop (start, stop, step)


class Text(Values):
    """`declared` says what a variable is that keeps its first value.  Of the others, None, every read may give
    anything that is not below what `least` says.
    """

    def __init__(
        self,
        declared: Callable[[ir.Var], FirstValue | None],
        proofs: bool,
        least: Callable[[ir.Var], int | None] = lambda var: None,
    ):
        super().__init__(proofs=proofs)
        self.declared, self.least = declared, least
        self.unknowns = itertools.count()  # names of those that no expression has
        self.opaque: dict[LinearAtom, tuple[Range, int]] = {}  # of unknowns: where they lie, and what divides them

    def of(self, e: ir.Expr) -> Form:
        return form(e, self, (), None)

    def read(self, frame: Frame, var: ir.Var) -> Form:
        found = self.known.get((frame, var.uid))
        if found is not None:
            return found
        self.known[frame, var.uid] = self.anything(next(self.unknowns), var.type)  # what a circle would see
        declared = self.declared(var)
        match declared:
            case None:
                del self.known[frame, var.uid]
                low = self.least(var)
                if low is None:
                    return self.anything(next(self.unknowns), var.type)
                return self._stands((low, lies_in(var.type)[1]), 1)
            case (init,):
                found = form(init, self, frame, None)
            case _:
                found = self._loop(var, *(form(e, self, frame, None) for e in declared))
        self.known[frame, var.uid] = found
        return found

    def _loop(self, var: ir.Var, start: Form, stop: Form, step: Form) -> Form:
        """A loop's variable: it starts there, and goes by whole steps."""
        (low, high), (by, most) = lies_in(var.type), self._span(step)
        low = max(low, self._span(start)[0]) if by >= 0 else low
        high = min(high, self._span(start)[1]) if most <= 0 else high
        if forms.is_number(step):
            trip = self.unknown(trip_of(var), var.privilege)
            found = forms.add(start, trip, step[0])
            self.spans[found] = low, high
            return found
        return self._stands((low, high), math.gcd(self.divisor(start), self.divisor(step)))

    def beyond(self, e: ir.Expr, frame: Frame, at: Position | None, parts: tuple[Form, ...] = ()) -> Form:
        """What the parts tell of an expression without a form."""
        op = ""
        match e:
            case ir.UnitId():
                return self._stands((0, MOST_UNITS), 1)
            case ir.Lane(among):
                return self._stands((0, among - 1), 1)
            case ir.Select():
                op = "select"
            case ir.Binary() | ir.Math() if parts:
                op = e.op
        low, high = lies_in(e.type)
        lows, highs = zip(*map(self._span, parts)) if parts else ((), ())
        divided = 1
        match op:
            case "min" | "max" | "select":
                least, most = {"min": (min, min), "max": (max, max), "select": (min, max)}[op]
                low, high = max(low, least(lows)), min(high, most(highs))
                divided = math.gcd(*map(self.divisor, parts))
            case "%":
                divided = math.gcd(*map(self.divisor, parts))  # whatever the signs are
                low = max(low, 0) if lows[0] >= 0 else low
            case "mod":
                divided = math.gcd(*map(self.divisor, parts))
                low = max(low, 0) if lows[1] >= 1 else low
                high = min(high, 0) if highs[1] <= -1 else high
            case "&" if max(lows) >= 0:
                low = max(low, 0)
            case "/" | "//" | ">>" if min(lows) >= 0:
                low = max(low, 0)
        return self._stands((low, high), divided)

    def _stands(self, span: Range, divided: int) -> Form:
        """A new unknown."""
        atom = (forms.ANY, next(self.unknowns))
        self.opaque[atom] = span, divided
        return self.unknown(atom, THREAD1)

    def range_of(self, atom: LinearAtom) -> Range:
        return self.opaque[atom][0] if atom in self.opaque else super().range_of(atom)

    def divisor(self, x: Form) -> int:
        """A number that divides the form; 0 divides only 0, which everything divides."""
        return math.gcd(x[0], *(k * self._divides(atom) for atom, k in x[1]))

    def _divides(self, atom: LinearAtom) -> int:
        if atom[0] == forms.MUL:
            return self.divisor(atom[1]) * self.divisor(atom[2])
        return self.opaque[atom][1] if atom in self.opaque else 1


def _chosen(e: ir.Select, d: Linear) -> Form:
    """It is one of the two, whatever decides."""
    return d.unknown(e, d.of(e.then), d.of(e.other)) if is_integer(e.type) else d.unknown(e)


Text.rules = {**RULES, ir.Select: _chosen, ir.Math: function}


class SameText(Values):
    """Where what is read does not change, an expression without a form is one unknown wherever its text stands."""

    def beyond(self, e: ir.Expr, frame: Frame, at: Position | None, parts: tuple[Form, ...] = ()) -> Form:
        return self.anything(e, e.type)


def first_values(body: ir.Body) -> dict[int, FirstValue]:
    """The variables that keep the first value which these statements give them, and what it is."""
    found: dict[int, FirstValue] = {}
    times: dict[int, int] = {}
    for s in statements(body):
        for var in assigned(s):
            times[var.uid] = times.get(var.uid, 0) + 1
        match s:
            case ir.Declare(var, init) if init is not None:
                found[var.uid] = (init,)
            case ir.For(var, start, stop, step):
                found[var.uid] = start, stop, step
    return {uid: value for uid, value in found.items() if times[uid] == 1}


def trip_of(var: ir.Var) -> LinearAtom:
    """How many iterations came before this one, in the loop of that variable."""
    return (forms.TRIP, var.uid)


def divisor(e: ir.Expr, text: Text) -> int:
    """A number that divides the value; 0 divides only 0, which everything divides."""
    return text.divisor(text.of(e))


def remainder(e: ir.Expr, n: int, text: Text) -> int | None:
    """What is left of the value when it is divided by n, where the text tells."""
    constant, terms = text.of(e)
    return None if text.divisor((0, terms)) % n else constant % n


def natural(e: ir.Expr, text: Text) -> bool:
    """Whether it is certainly not negative."""
    return text.not_negative(text.of(e))


def direction(e: ir.Expr, var: ir.Var, text: Text) -> int:
    """1 where the value grows with each iteration of the variable's loop, -1 where it shrinks, 0 where the text does
    not tell.
    """
    x, trip = text.of(e), trip_of(var)
    by = dict(x[1]).get(trip, 0)
    inside = any(trip in forms.atoms([part for part in atom[1:] if forms.is_form(part)]) for atom, _ in x[1])
    return 0 if inside else (by > 0) - (by < 0)
