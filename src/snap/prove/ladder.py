"""Whether integers satisfy conditions: solvers, one after the other.

Input: conditions (terms.py), all of which hold.  Output: NO, a model that has been evaluated, or UNKNOWN.  Invariant:
NO only where a solver says so of conditions that follow from those given; a model satisfies them by plain evaluation.
Limits are counted in steps of the solver, not in seconds, so that an answer does not depend on the machine.  Non-goals:
what the conditions mean.

The steps of the ladder, each tried where the one before did not decide:

  1. the ranges of the atoms alone
  2. linear arithmetic (z3), each product of unknowns an unknown of its own, with what is known of products: signs,
     `x < y` makes `x*c + c <= y*c` for c >= 0, what is not negative times what is not negative, and `r*S + c = 0` told
     apart by r < 0, r = 0, r > 0
  3. arithmetic with products (z3)
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from snap.prove.terms import FALSE, Atom, Cond, Mono, Poly, Terms, atoms_of, holds

Model = dict[Atom, int]


class Answer(Enum):
    NO = auto()
    UNKNOWN = auto()


NO, UNKNOWN = Answer.NO, Answer.UNKNOWN
LINEAR_STEPS, PRODUCT_STEPS = 1_500_000, 1_500_000
MOST_LEMMAS = 400


@dataclass(slots=True)
class Ladder:
    """The solvers for one kernel.  steps: what each may take for one question."""

    terms: Terms
    steps: tuple[int, int] = (LINEAR_STEPS, PRODUCT_STEPS)
    asked: Counter = field(default_factory=Counter)
    _vars: dict[Any, Any] = field(default_factory=dict)
    _memo: dict[frozenset, Model | Answer] = field(default_factory=dict)
    _z3: Any = None

    def __post_init__(self) -> None:
        import z3

        self._z3 = z3

    def solve(self, conds: Iterable[Cond], wanted: bool = False) -> Model | Answer:
        """wanted: whether a model is asked for; else what linear arithmetic does not decide may go on to products, too,
        but none is looked for beyond that.
        """
        kept = frozenset(c for one in conds for c in (one[1:] if one[0] == "and" else (one,)) if c[0] != "true")
        if FALSE in kept:
            self.asked["ranges"] += 1
            return NO
        if kept not in self._memo:
            self._memo[kept] = self._decide(sorted(kept, key=repr))
        return self._memo[kept]

    def follows(self, facts: Iterable[Cond], goal: Cond) -> bool:
        from snap.prove.terms import negated

        return self.solve([*facts, negated(goal)]) is NO

    # ---- z3 ----

    def _decide(self, conds: list[Cond]) -> Model | Answer:
        atoms = atoms_of(conds)
        axioms = [c for atom in atoms for c in defining(self.terms, atom)]
        closed = atoms_of([*conds, *axioms])
        products = any(len(mono) > 1 for c in (*conds, *axioms) for p in _polys(c) for mono in p.terms)
        found = self._ask(conds, axioms, closed, linear=True)
        if found is UNKNOWN and products:
            found = self._ask(conds, axioms, closed, linear=False)
        return found

    def _ask(self, conds: list[Cond], axioms: list[Cond], atoms: list[Atom], linear: bool) -> Model | Answer:
        z3 = self._z3
        solver = z3.SolverFor("QF_LIA" if linear else "QF_NIA")
        solver.set("rlimit", self.steps[0 if linear else 1])
        said = [*conds, *axioms]
        if linear:
            said += lemmas(conds, axioms)
        translated = [self._cond(c, linear) for c in said]
        monos = {mono for c in said for p in _polys(c) for mono in p.terms if len(mono) > 1} if linear else set()
        for mono in sorted(monos, key=repr):
            low, high = Poly({mono: 1}).span()
            term = self._mono(mono, True)
            translated += [term >= low, term <= high]
        for atom in atoms:
            term = self._mono((atom,), linear)
            translated += [term >= atom.low, term <= atom.high]
        solver.add(*translated)
        answer = solver.check()
        self.asked["linear" if linear else "products"] += 1
        if answer == z3.unsat:
            return NO
        if answer != z3.sat:
            return UNKNOWN
        model = solver.model()
        at = {
            atom: model.eval(self._mono((atom,), linear), model_completion=True).as_long()
            for atom in atoms
            if not atom.defined
        }
        values = dict(at)
        return at if all(holds(c, values) for c in conds) else UNKNOWN

    def _mono(self, mono: Mono, linear: bool) -> Any:
        if len(mono) != 1 and not linear:
            found = self._z3.IntVal(1)
            for atom in mono:
                found = found * self._mono((atom,), False)
            return found
        found = self._vars.get(mono)
        if found is None:
            found = self._vars[mono] = self._z3.Int("m" + "_".join(str(atom.number) for atom in mono))
        return found

    def _poly(self, p: Poly, linear: bool) -> Any:
        z3 = self._z3
        parts = [k * self._mono(mono, linear) for mono, k in p.terms.items() if mono]
        return z3.Sum(*parts, z3.IntVal(p.constant)) if parts else z3.IntVal(p.constant)

    def _cond(self, c: Cond, linear: bool) -> Any:
        z3 = self._z3
        match c:
            case ("ge", p):
                return self._poly(p, linear) >= 0
            case ("eq", p):
                return self._poly(p, linear) == 0
            case ("ne", p):
                return self._poly(p, linear) != 0
            case ("and", *inner):
                return z3.And(*(self._cond(one, linear) for one in inner))
            case ("or", *inner):
                return z3.Or(*(self._cond(one, linear) for one in inner))
            case _:
                return z3.BoolVal(c[0] == "true")


def _polys(c: Cond) -> Iterable[Poly]:
    if c[0] in ("and", "or"):
        for one in c[1:]:
            yield from _polys(one)
    elif len(c) > 1:
        yield c[1]


# ---- what atoms are -------------------------------------------------------------------------------------------------


def ge(p: Poly) -> Cond:
    return ("ge", p)


def defining(terms: Terms, atom: Atom) -> list[Cond]:
    """What holds of a defined atom."""
    a = Poly({(atom,): 1})
    match atom.kind, atom.parts:
        case "floor", (x, n):
            rest = x - a * n
            return [ge(rest), ge(-rest + (n - 1))]
        case "div", (x, y):
            rest = x - a * y
            n = y.value
            if x.span()[0] >= 0 and y.span()[0] >= 1:
                return [ge(rest), ge(y - rest - 1), ge(a)]
            cases: list[Cond] = []
            for sign in (1, -1) if y.span()[0] <= 0 and (n is None or n < 0) else (1,):
                size = y * sign
                positive = ge(size - 1)
                cases.append(("and", positive, ge(x), ge(rest), ge(size - rest - 1), ge(a * sign)))
                cases.append(("and", positive, ge(-x - 1), ge(-rest), ge(size + rest - 1), ge(-a * sign)))
            if y.span()[0] <= 0 <= y.span()[1]:
                cases.append(("eq", y))
            return [("or", *cases)]
        case "ite", (c, x, y):
            from snap.prove.terms import negated

            return [("or", ("and", c, ("eq", a - x)), ("and", negated(c), ("eq", a - y)))]
        case ("min" | "max") as kind, (x, y):
            sign = 1 if kind == "min" else -1
            return [ge((x - a) * sign), ge((y - a) * sign), ("or", ("eq", a - x), ("eq", a - y))]
        case "and", (x, y, bits):
            return _bits(terms, a, x, y, bits)
    return []


def _bits(terms: Terms, a: Poly, x: Poly, y: Poly, bits: int) -> list[Cond]:
    """a = x & y, bit by bit: each is the lesser of the two."""
    found: list[Cond] = []
    total = a
    for k in range(bits):
        one, other = (terms.modulo(terms.floor(p, 1 << k), 2) for p in (x, y))
        bit = terms.least(one, other)
        total = total - bit * (1 << k)
        found += [ge(bit), ge(one - bit), ge(other - bit), ge(bit - one - other + 1)]
        for inner in atoms_of([], [one, other]):
            found += defining(terms, inner) if inner.kind == "floor" else []
    return [*found, ("eq", total)]


# ---- what is known of products --------------------------------------------------------------------------------------


def lemmas(conds: list[Cond], axioms: list[Cond]) -> list[Cond]:
    """What follows from the conditions, of products that stand in them."""
    monos = {mono for c in (*conds, *axioms) for p in _polys(c) for mono in p.terms if len(mono) > 1}
    if not monos:
        return []
    factors = {atom for mono in monos for atom in mono}
    found: list[Cond] = []
    ordered = sorted(monos, key=lambda mono: [atom.number for atom in mono])
    # x*y, by the signs of x and y.
    for mono in ordered:
        for k, atom in enumerate(mono):
            rest = mono[:k] + mono[k + 1 :]
            found += _signs(mono, atom, rest)
    # x*c and y*c, by x and y.
    for one, other in itertools.combinations(ordered, 2):
        found += _pair(one, other)
    # What is not negative, times a factor that is not.
    known = [p for c in conds for p in ([c[1]] if c[0] == "ge" else [c[1], -c[1]] if c[0] == "eq" else [])]
    known += [p for c in axioms if c[0] == "ge" for p in [c[1]]]
    for p, atom in itertools.product(known, sorted(factors, key=lambda atom: atom.number)):
        product = p * Poly({(atom,): 1})
        new = [mono for mono in product.terms if len(mono) > 1]
        if len(p.terms) > 1 and len(new) > 0 and sum(mono in monos for mono in new) * 2 >= len(new):
            fact = ge(product)
            found.append(fact if atom.low >= 0 else ("or", ge(Poly({(atom,): -1}) - 1), fact))
    # r*S + c = 0, by r.
    for c in conds:
        if c[0] == "eq":
            found += _digits(c[1])
    return found[:MOST_LEMMAS]


def _signs(mono: Mono, atom: Atom, rest: Mono) -> list[Cond]:
    m, x, y = Poly({mono: 1}), Poly({(atom,): 1}), Poly({rest: 1})
    found: list[Cond] = [("or", ("ne", x), ("eq", m))]
    low, high = y.span()
    if low >= 0:
        found += [("or", ge(-x), ge(m - y)), ("or", ge(x), ge(-m - y))]
    else:
        found += [("or", ge(-x), ge(-y - 1), ge(m - y)), ("or", ge(-x), ge(y), ge(-m - x))]
        found += [("or", ge(x), ge(-y - 1), ge(-m - y)), ("or", ge(x), ge(y), ge(m + x))]
    return found


def _pair(one: Mono, other: Mono) -> list[Cond]:
    common = Counter(one) & Counter(other)
    if not common:
        return []
    left, right = Counter(one) - common, Counter(other) - common
    if sum(left.values()) > 1 or sum(right.values()) > 1:
        return []
    c = Poly({tuple(sorted(common.elements(), key=lambda a: a.number)): 1})
    x, y = (Poly({tuple(rest.elements()): 1}) for rest in (left, right))
    m, n = Poly({one: 1}), Poly({other: 1})
    guard = [] if c.span()[0] >= 0 else [ge(-c - 1)]
    return [
        ("or", *guard, ge(x - y), ge(n - m - c)),
        ("or", *guard, ge(y - x), ge(m - n - c)),
        ("or", ("ne", x - y), ("eq", m - n)),
    ]


def _digits(p: Poly) -> list[Cond]:
    """p = r*S + c: where r > 0 it is r*S >= S, and so on; for every S that stands in a product of it."""
    found: list[Cond] = []
    for atom in sorted({a for mono in p.terms if len(mono) > 1 for a in mono}, key=lambda a: a.number):
        if atom.low < 0:
            continue
        r: dict[Mono, int] = {}
        for mono, k in p.terms.items():
            if atom in mono:
                at = mono.index(atom)
                r[mono[:at] + mono[at + 1 :]] = k
        row, size = Poly(r), Poly({(atom,): 1})
        if all(len(mono) < 2 for mono in row.terms) and len(row.terms) > 1:
            found += [
                ("or", ge(-row), ge(row * size - size)),
                ("or", ge(row), ge(-(row * size) - size)),
                ("or", ("ne", row), ("eq", row * size)),
            ]
    return found
