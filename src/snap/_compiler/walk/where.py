"""Conditions of decorators, `where=` and what contracts of device functions say, as facts.

Input: the tree of the function, and what its names mean: polynomials, conditions, arrays of them.  Output: conditions.
Invariant: where Python says that a condition holds, the fact does.  What is not about integers is `Unknown`: of a
kernel's `where=` it is left out, and a proof does not use it; a contract is refused for it
(check/functions/contracts.py). Non-goals: checking launches (host/arguments/preconditions.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.conditions import at_least, atoms_of, below, both, either, equal, negated
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond, each
from snap._compiler.analysis.exact.terms import Atom, Poly, Terms, number
from snap._compiler.frontend.printer import expression
from snap._compiler.walk.values import compared

ROUNDS = 3  # in which ranges are drawn from one another
DIVIDES = "`/` makes a float in Python: write `//`"
MOST_ITEMS = 4096  # of what `all` or `any` goes through


class Unknown(Exception):
    """Something that is not about integers, and why: a sentence without a full stop."""


class Elements(list):
    """An array: its elements, or rows."""


class Attributes(dict):
    """Hold what has attributes, by name."""


class WhereReader:
    """names: what each name means: a number, a polynomial, a condition, `Elements` or `Attributes` of such.  divisors:
    those that Python divides by, with their text, where it certainly does: none of them is zero, or the launch is
    refused.
    """

    def __init__(self, terms: Terms, names: Mapping[str, Any]):
        self.terms, self.names = terms, names
        self.divisors: list[tuple[Poly, Any]] = []
        self.left_out: list[tuple[Any, str]] = []  # conditions that no proof uses, and why
        self._sure = True

    def facts(self, body: Any) -> list[Cond]:
        found = []
        for one in conditions(body):
            try:
                found.append(self.cond(one))
            except Unknown as why:
                self.left_out.append((one, str(why)))
        found += [negated(equal(y, 0)) for y, _ in self.divisors]
        return [c for c in found if c != TRUE]

    # ---- conditions ----

    def cond(self, e: Any) -> Cond:
        match type(e).__name__:
            case "Compare" if e.op in ("in", "not in"):
                found = self._member(self.number(e.left), e.right)
                return found if e.op == "in" else negated(found)
            case "Compare":
                return compared(e.op, self.number(e.left), self.number(e.right))
            case "Chain":
                first, second, *rest = e.operands
                values = [self.number(first), self.number(second), *(self._maybe(self.number, one) for one in rest)]
                return both(*(compared(op, a, b) for op, a, b in zip(e.ops, values, values[1:])))
            case "Logical":
                join = both if e.op == "and" else either
                return join(self.cond(e.left), self._maybe(self.cond, e.right))
            case "Unary" if e.op == "not":
                return negated(self.cond(e.value))
            case "Conditional":
                c = self.cond(e.cond)
                then, other = self._maybe(self.cond, e.then), self._maybe(self.cond, e.other)
                return either(both(c, then), both(negated(c), other))
            case "Call" if self._own(e, "all", "any"):
                join = both if e.function.id == "all" else either
                return join(*self._each(e.args[0]))
            case "Name" | "Attribute" | "Subscript" if isinstance(found := self._meaning(e), tuple):
                return found
            case _:
                return negated(equal(self.number(e), 0))

    def _maybe(self, ask: Callable[[Any], Any], e: Any) -> Any:
        """Read what Python evaluates only sometimes."""
        sure, self._sure = self._sure, False
        try:
            return ask(e)
        finally:
            self._sure = sure

    def _own(self, e: Any, *words: str) -> bool:
        """Tell whether it is a call of one of Python's own functions, with one argument."""
        name = getattr(e.function, "id", None)
        return name in words and name not in self.names and len(e.args) == 1 and not e.keywords

    def _member(self, x: Poly, among: Any) -> Cond:
        kind = type(among).__name__
        if kind == "Call" and getattr(among.function, "id", "") == "range" and "range" not in self.names:
            ends = [self.number(a) for a in among.args]
            if len(ends) in (1, 2) and not among.keywords:
                return both(at_least(x, ends[0] if len(ends) == 2 else 0), below(x, ends[-1]))
        if kind == "Sequence":
            return either(*(equal(x, self.number(one)) for one in among.items)) if among.items else FALSE
        found = self._meaning(among) if kind == "Name" else None
        if isinstance(found, (tuple, frozenset, range)):  # what cannot be changed
            if len(found) <= MOST_ITEMS and all(type(one) in (bool, int) for one in found):
                return either(*(equal(x, int(one)) for one in found)) if found else FALSE
        raise Unknown(f"`{expression(among)}` is not a range or tuple of integers")

    def _each(self, e: Any) -> Iterator[Cond]:
        """The conditions that `all` and `any` go through; Python may stop before the last one."""
        if type(e).__name__ == "Sequence":
            yield from (self._maybe(self.cond, one) for one in e.items)
            return
        if type(e).__name__ != "Each":
            raise Unknown(
                f"`all` and `any` go through `... for k in range(8)`, or a tuple; not through `{expression(e)}`"
            )
        yield from self._bound(e.value, e.clauses, 1)

    def _bound(self, value: Any, clauses: tuple, size: int) -> Iterator[Cond]:
        if not clauses:
            yield self._maybe(self.cond, value)
            return
        (name, iterable), *rest = clauses
        items = self._items(iterable)
        if size * len(items) > MOST_ITEMS:
            raise Unknown(f"it goes through more than {MOST_ITEMS} items")
        outer = self.names
        for item in items:
            self.names = {**outer, name: item}
            try:
                yield from self._bound(value, tuple(rest), size * len(items))
            finally:
                self.names = outer

    def _items(self, e: Any) -> list[Any]:
        kind = type(e).__name__
        if kind == "Sequence":
            return [self.number(one) for one in e.items]
        if kind == "Call" and getattr(e.function, "id", "") == "range" and "range" not in self.names:
            ends = [self.number(a).value for a in e.args]
            if None not in ends and 1 <= len(ends) <= 3 and not e.keywords and (len(ends) < 3 or ends[2] != 0):
                return [number(n) for n in itertools.islice(range(*ends), MOST_ITEMS + 1)]  # type: ignore[arg-type]
        elif kind in ("Name", "Attribute", "Subscript") and isinstance(found := self._meaning(e), Elements):
            return found
        raise Unknown(f"`{expression(e)}` is not a range of numbers, a tuple or an array of the contract")

    # ---- numbers ----

    def number(self, e: Any) -> Poly:
        match type(e).__name__:
            case "Number" if isinstance(e.value, (bool, int)):
                return number(int(e.value))
            case "Name" | "Attribute" | "Subscript":
                return self._as_number(self._meaning(e), e)
            case "Unary" if e.op in "+-":
                x = self.number(e.value)
                return -x if e.op == "-" else x
            case "Binary":
                return self._binary(e, self.number(e.left), self.number(e.right))
            case "Conditional":
                c = self.cond(e.cond)
                return self.terms.choose(c, self._maybe(self.number, e.then), self._maybe(self.number, e.other))
            case "Call" if type(e.function).__name__ == "Name" and not e.keywords:
                return self._call(e, e.function.id, e.args)
            case "Compare" | "Chain":
                return self.terms.choose(self.cond(e), number(1), number(0))
            case "Unary" if e.op == "not":
                return self.terms.choose(self.cond(e), number(1), number(0))
            case "Logical":  # Python's: one of the two
                first, second = self.number(e.left), self._maybe(self.number, e.right)
                then, other = (second, first) if e.op == "and" else (first, second)
                return self.terms.choose(self._maybe(self.cond, e.left), then, other)
            case _:
                raise Unknown(f"`{expression(e)}` is not made of integers")

    def _meaning(self, e: Any) -> Any:
        match type(e).__name__:
            case "Name":
                return self.names.get(e.id)
            case "Attribute" if (path := _path(e)) in self.names:
                return self.names[path]
            case "Attribute":
                of = self._meaning(e.value)
                return of.get(e.name) if isinstance(of, Attributes) else None
            case "Subscript":
                found = self._meaning(e.value)
                for one in e.index:
                    k = self.number(one).value
                    if not isinstance(found, Elements) or k is None or not -len(found) <= k < len(found):
                        raise Unknown(f"`{expression(e)}` is not an element that is known here")
                    found = found[k]
                return found
            case _:
                return None

    def _as_number(self, value: Any, e: Any) -> Poly:
        if isinstance(value, Poly):
            return value
        if isinstance(value, (bool, int)):
            return number(int(value))
        if type(value) is tuple and value and isinstance(value[0], str):
            return self.terms.choose(value, number(1), number(0))
        raise Unknown(f"`{expression(e)}` is not an integer that a launch is given")

    def _binary(self, e: Any, x: Poly, y: Poly) -> Poly:
        match e.op:
            case "+":
                return x + y
            case "-":
                return x - y
            case "*":
                return x * y
            case "**" if x.value is not None and y.value is not None and 0 <= y.value < 128:
                return number(x.value**y.value)
            case "<<" if y.value is not None and 0 <= y.value < 128:
                return x * (1 << y.value)
            case "//" | "%":
                quotient = self._floor(x, y, e.right)
                return quotient if e.op == "//" else x - y * quotient
            case _:
                raise Unknown(DIVIDES if e.op == "/" else f"`{expression(e)}` is read where both are constants alone")

    def _floor(self, x: Poly, y: Poly, text: Any) -> Poly:
        """Python's: rounded down.  By what may not be positive, nothing is said."""
        n = y.value
        if n is not None and n > 0:
            return self.terms.floor(x, n)
        if n is not None:
            raise Unknown(f"it divides by `{expression(text)}`, which is not positive")
        if self._sure:
            self.divisors.append((y, text))
        low, high = x.span()
        most = max(abs(low), abs(high)) + 1
        up = self.terms.divide(x, y)
        if low < 0:
            up = self.terms.choose(at_least(x, 0), up, -self.terms.divide(y - x - 1, y))
        return self.terms.choose(at_least(y, 1), up, self.terms.base(kinds.ANY, -most, most))

    def _call(self, e: Any, name: str, args: tuple) -> Poly:
        if name in self.names:
            raise Unknown(f"`{name}` is not a function of integers that a proof knows")  # not Python's own
        if name == "len" and len(args) == 1 and (path := _path(args[0])):
            return self._as_number(self.names.get(f"len({path})"), e)
        if name in ("min", "max") and len(args) > 1:
            first, *rest = (self.number(a) for a in args)
            for one in rest:
                first = self.terms.least(first, one) if name == "min" else self.terms.most(first, one)
            return first
        if name == "abs" and len(args) == 1:
            x = self.number(args[0])
            return self.terms.choose(at_least(x, 0), x, -x)
        if name in ("all", "any") and self._own(e, "all", "any"):
            return self.terms.choose(self.cond(e), number(1), number(0))
        raise Unknown(f"`{name}` is not a function of integers that a proof knows")


def _path(e: Any) -> str:
    """The whole name of an argument, or of a field of a record, `w.n`; empty for anything else."""
    if type(e).__name__ == "Attribute":
        of = _path(e.value)
        return f"{of}.{e.name}" if of else ""
    return e.id if type(e).__name__ == "Name" else ""


def conditions(body: Any) -> tuple[Any, ...]:
    """One, or a tuple of them."""
    return body.items if type(body).__name__ == "Sequence" else (body,)


def multiples(facts: list[Cond], names: Mapping[str, Poly]) -> dict[str, int]:
    """Return by name what a number is a multiple of: `n % 8 == 0`."""
    found: dict[str, int] = {}
    for c in each(facts):
        for name, x in names.items():
            for atom in c[1].atoms if c[0] == logic.EQ else ():
                if atom.kind is kinds.FLOOR and atom.parts[0] == x and c[1] in (x - _times(atom), _times(atom) - x):
                    found[name] = math.lcm(found.get(name, 1), atom.parts[1])
    return found


def equalities(facts: list[Cond], names: Mapping[str, Poly]) -> dict[str, str]:
    """Return by the name of a number that is given an earlier name of the same number: `stride == out_stride`."""
    given = {
        p: name
        for name, p in reversed(list(names.items()))
        if not name.startswith(("len(", "grid[")) and name != "blocks"
    }
    found: dict[str, str] = {}
    for c in each(facts):
        if c[0] == logic.EQ and sorted(c[1].terms.values()) == [-1, 1]:
            one, other = (given.get(Poly({mono: 1})) for mono in c[1].terms)
            if one is not None and other is not None:
                first, second = sorted((found.get(one, one), found.get(other, other)), key=list(names).index)
                found = {name: first if of == second else of for name, of in found.items()}
                if first != second:
                    found[second] = first
    return found


def _times(floor: Atom) -> Poly:
    return Poly({(floor,): floor.parts[1]})


def solved(facts: list[Cond], atom: Atom) -> Poly | None:
    """Return what an equation says that a number is: `128 * blocks == M * N`."""
    for c in each(facts):
        k = c[1].terms.get((atom,)) if c[0] == logic.EQ else None
        if k and all(n % k == 0 for n in c[1].terms.values()):
            rest = Poly({mono: -n // k for mono, n in c[1].terms.items() if mono != (atom,)})
            if atom not in atoms_of([], [rest]):
                return rest
    return None


def divisible(facts: list[Cond]) -> tuple[Atom, Poly, Atom] | None:
    """A number that is a multiple of another one, that one, and their quotient: `heads % groups == 0`.  Neither is
    negative, and the divisor is positive, by their ranges.
    """
    for c in each(facts):
        for atom in c[1].atoms if c[0] == logic.EQ else ():
            if atom.kind is kinds.DIV and atom.parts[0].span()[0] >= 0 and atom.parts[1].span()[0] >= 1:
                x, y = atom.parts
                rest = x - y * Poly({(atom,): 1})
                (number_,) = x.atoms if len(x.atoms) == 1 else (atom,)
                alone = not number_.defined and x == Poly({(number_,): 1}) and number_ not in atoms_of([], [y])
                if alone and c[1] in (rest, -rest):
                    return number_, y, atom
    return None


def refine(facts: list[Cond]) -> None:
    """Ranges of parameters, by conditions that have no other numbers than those whose ranges are known: from
    `1 <= N <= stride` follows that a stride is positive.
    """
    known = [
        p for c in each(facts) for p in ((c[1],) if c[0] == logic.GE else (c[1], -c[1]) if c[0] == logic.EQ else ())
    ]
    for _ in range(ROUNDS):
        for p in known:
            for mono, k in p.terms.items():
                if len(mono) == 1 and not mono[0].defined and not any(mono[0] in m for m in p.terms if m != mono):
                    _bounded(mono[0], k, (p - Poly({mono: k})).span()[1])


def _bounded(atom: Atom, k: int, most: int) -> None:
    """k * atom + rest >= 0, and the rest is `most` at most.  A range stays one: contradictions are for solvers."""
    if k > 0:
        atom.low = min(max(atom.low, -(most // k)), atom.high)
    else:
        atom.high = max(min(atom.high, most // -k), atom.low)
