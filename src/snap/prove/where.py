"""`where=` of a kernel's decorator, as facts.

Input: the tree of the function, and the parameters as polynomials.  Output: conditions.  Invariant: where Python says
that a condition holds for a launch, the fact does.  What is not about integers is left out: a proof does not use it.
Non-goals: checking launches (runtime/preconditions.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from snap.prove.terms import TRUE, Atom, Cond, Poly, Terms, at_least, atoms_of, both, either, equal, negated, number
from snap.prove.values import compared


class Unknown(Exception):
    """Something that is not about integers."""


class Where:
    """names: what each name means: a number, a polynomial, or of an array `Sized`."""

    def __init__(self, terms: Terms, names: Mapping[str, Any]):
        self.terms, self.names = terms, names

    def facts(self, body: Any) -> list[Cond]:
        found = []
        for one in body.items if type(body).__name__ == "Sequence" else (body,):
            try:
                found.append(self.cond(one))
            except Unknown:
                continue
        return [c for c in found if c != TRUE]

    def cond(self, e: Any) -> Cond:
        match type(e).__name__:
            case "Compare":
                return compared(e.op, self.number(e.left), self.number(e.right))
            case "Chain":
                values = [self.number(one) for one in e.operands]
                return both(*(compared(op, a, b) for op, a, b in zip(e.ops, values, values[1:])))
            case "Logical":
                join = both if e.op == "and" else either
                return join(self.cond(e.left), self.cond(e.right))
            case "Unary" if e.op == "not":
                return negated(self.cond(e.value))
            case _:
                return negated(equal(self.number(e), 0))

    def number(self, e: Any) -> Poly:
        match type(e).__name__:
            case "Number" if isinstance(e.value, (bool, int)):
                return number(int(e.value))
            case "Name":
                return self._named(e.id)
            case "Unary" if e.op in "+-":
                x = self.number(e.value)
                return -x if e.op == "-" else x
            case "Binary":
                return self._binary(e.op, self.number(e.left), self.number(e.right))
            case "Conditional":
                return self.terms.choose(self.cond(e.cond), self.number(e.then), self.number(e.other))
            case "Call" if type(e.function).__name__ == "Name" and not e.keywords:
                return self._call(e.function.id, e.args)
            case "Compare" | "Chain":
                return self.terms.choose(self.cond(e), number(1), number(0))
            case "Logical":  # Python's: one of the two
                first, second = self.number(e.left), self.number(e.right)
                then, other = (second, first) if e.op == "and" else (first, second)
                return self.terms.choose(self.cond(e.left), then, other)
            case _:
                raise Unknown

    def _named(self, name: str) -> Poly:
        value = self.names.get(name)
        if isinstance(value, Poly):
            return value
        if isinstance(value, (bool, int)):
            return number(int(value))
        raise Unknown

    def _binary(self, op: str, x: Poly, y: Poly) -> Poly:
        match op:
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
                quotient = self._floor(x, y)
                return quotient if op == "//" else x - y * quotient
            case _:
                raise Unknown

    def _floor(self, x: Poly, y: Poly) -> Poly:
        """Python's: rounded down.  Of what may be negative, nothing is said."""
        n = y.value
        if n is not None and n > 0:
            return self.terms.floor(x, n)
        if n is not None:
            raise Unknown
        low, high = x.span()
        most = max(abs(low), abs(high)) + 1
        free = self.terms.base("any", -most, most)
        return self.terms.choose(both(at_least(x, 0), at_least(y, 1)), self.terms.divide(x, y), free)

    def _call(self, name: str, args: tuple) -> Poly:
        if name in self.names:
            raise Unknown  # not Python's own
        if name == "len" and len(args) == 1 and type(args[0]).__name__ == "Name":
            return self._named(f"len({args[0].id})")
        if name in ("min", "max") and len(args) > 1:
            first, *rest = (self.number(a) for a in args)
            for one in rest:
                first = self.terms.least(first, one) if name == "min" else self.terms.most(first, one)
            return first
        if name == "abs" and len(args) == 1:
            x = self.number(args[0])
            return self.terms.choose(at_least(x, 0), x, -x)
        raise Unknown


def _each(facts: list[Cond]) -> list[Cond]:
    return [inner for one in facts for inner in (one[1:] if one[0] == "and" else (one,))]


def multiples(facts: list[Cond], names: Mapping[str, Poly]) -> dict[str, int]:
    """By name, what it is a multiple of: `n % 8 == 0`."""
    found: dict[str, int] = {}
    for c in _each(facts):
        for name, x in names.items():
            for atom in c[1].atoms if c[0] == "eq" else ():
                if atom.kind == "floor" and atom.parts[0] == x and c[1] in (x - _times(atom), _times(atom) - x):
                    found[name] = math.lcm(found.get(name, 1), atom.parts[1])
    return found


def _times(floor: Atom) -> Poly:
    return Poly({(floor,): floor.parts[1]})


def solved(facts: list[Cond], atom: Atom) -> Poly | None:
    """What an equation says that a number is: `128 * blocks == M * N`."""
    for c in _each(facts):
        k = c[1].terms.get((atom,)) if c[0] == "eq" else None
        if k and all(n % k == 0 for n in c[1].terms.values()):
            rest = Poly({mono: -n // k for mono, n in c[1].terms.items() if mono != (atom,)})
            if atom not in atoms_of([], [rest]):
                return rest
    return None


def refine(facts: list[Cond]) -> None:
    """Ranges of parameters, by conditions on one of them alone."""
    for c in _each(facts):
        for p in (c[1],) if c[0] == "ge" else (c[1], -c[1]) if c[0] == "eq" else ():
            variable = [(mono, k) for mono, k in p.terms.items() if mono]
            if len(variable) == 1 and len(variable[0][0]) == 1 and not variable[0][0][0].defined:
                (atom,), k = variable[0]
                # k * atom + constant >= 0
                if k > 0:
                    atom.low = max(atom.low, -(p.constant // k))
                else:
                    atom.high = min(atom.high, p.constant // -k)
