"""One question to the solvers: conditions that hold together, and what is known of the numbers in them.

Input: conditions (terms.py).  Output: a `System`: the conditions, what holds of defined atoms, and lemmas about
products (products.py).  Invariant: everything in a system follows from its conditions, so that where no numbers satisfy
it, none satisfy them.  Non-goals: answers (ladder.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.conditions import atoms_of, negated
from snap._compiler.analysis.exact.logic import Cond, polys
from snap._compiler.analysis.exact.products import Lemmas, ge
from snap._compiler.analysis.exact.terms import Atom, Mono, Poly, Terms, holds
from snap._compiler.analysis.solvers.solve import UNKNOWN, NoModel

TermModel = dict[Atom, int]


class System:
    """conds: what is asked.  axioms: what holds of the defined atoms in them.  atoms: all of them."""

    def __init__(self, terms: Terms, conds: list[Cond]):
        self.conds = conds
        axioms: dict[Atom, list[Cond]] = {}
        todo = atoms_of(conds)
        while todo:  # what holds of one may name others
            atom = todo.pop()
            if atom not in axioms:
                axioms[atom] = terms.defining(atom, defining)
                todo += atoms_of(axioms[atom])
        self.atoms: list[Atom] = sorted(axioms, key=lambda atom: atom.number)
        self.axioms = [c for atom in self.atoms for c in axioms[atom]]
        self.products = any(len(mono) > 1 for c in self.said for p in polys(c) for mono in p.terms)

    @property
    def said(self) -> list[Cond]:
        return [*self.conds, *self.axioms]

    @cached_property
    def lemmas(self) -> Lemmas:
        return Lemmas(self.conds, self.axioms, self.atoms) if self.products else Lemmas([], [], [])

    @property
    def alternatives(self) -> int:
        """Count the cases, if all are told apart."""
        return math.prod(alternatives(c) for c in self.said)

    def ends(self, conds: Iterable[Cond]) -> Iterable[tuple[Mono, int, int]]:
        """Return between which numbers each atom and each product in them lies."""
        monos: dict[Mono, None] = {(atom,): None for atom in self.atoms}
        for c in conds:
            for p in polys(c):
                monos.update(dict.fromkeys(mono for mono in p.terms if len(mono) > 1))
        for mono in monos:
            low, high = (mono[0].low, mono[0].high) if len(mono) == 1 else Poly({mono: 1}).span()
            yield mono, low, high

    def model(self, found: dict[Mono, int]) -> TermModel | NoModel:
        """The model, if plain evaluation says that it is one."""
        at = {atom: found.get((atom,), atom.low) for atom in self.atoms if not atom.defined}
        if not all(atom.low <= n <= atom.high for atom, n in at.items()):
            return UNKNOWN
        values = dict(at)
        return at if all(holds(c, values) for c in self.conds) else UNKNOWN


def alternatives(c: Cond) -> int:
    """Count the cases of a condition."""
    match c:
        case (logic.OR, *inner):
            return sum(map(alternatives, inner))
        case (logic.AND, *inner):
            return math.prod(map(alternatives, inner))
        case _:
            return 2 if c[0] == logic.NE else 1


def defining(terms: Terms, atom: Atom) -> list[Cond]:
    """Return what holds of a defined atom."""
    a = Poly({(atom,): 1})
    match atom.kind, atom.parts:
        case kinds.FLOOR, (x, n):
            rest = x - a * n
            return [ge(rest), ge(-rest + (n - 1))]
        case kinds.DIV, (x, y):
            rest = x - a * y
            n = y.value
            if terms.span(x)[0] >= 0 and terms.span(y)[0] >= 1:
                return [ge(rest), ge(y - rest - 1), ge(a)]
            cases: list[Cond] = []
            for sign in (1, -1) if y.span()[0] <= 0 and (n is None or n < 0) else (1,):
                size = y * sign
                positive = ge(size - 1)
                cases.append((logic.AND, positive, ge(x), ge(rest), ge(size - rest - 1), ge(a * sign)))
                cases.append((logic.AND, positive, ge(-x - 1), ge(-rest), ge(size + rest - 1), ge(-a * sign)))
            if y.span()[0] <= 0 <= y.span()[1]:
                cases.append((logic.EQ, y))
            return [(logic.OR, *cases)]
        case kinds.MOD, (x, y):
            return [(logic.EQ, x - terms.divide(x, y) * y - a), ge(y - a - 1)]
        case kinds.ITE, (c, x, y):
            return [(logic.OR, (logic.AND, c, (logic.EQ, a - x)), (logic.AND, negated(c), (logic.EQ, a - y)))]
        case (kinds.MIN | kinds.MAX) as kind, (x, y):
            sign = 1 if kind is kinds.MIN else -1
            return [ge((x - a) * sign), ge((y - a) * sign), (logic.OR, (logic.EQ, a - x), (logic.EQ, a - y))]
        case kinds.AND, (x, y, bits):
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
            found += defining(terms, inner) if inner.kind is kinds.FLOOR else []
    return [*found, (logic.EQ, total)]
