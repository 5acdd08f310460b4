"""A question about few bits, asked of z3 as bit vectors: exclusive ors, swizzles, digits of numbers.

Input: conditions (terms.py), and how many steps z3 may take.  Output: NO, a number for each atom of the program, or
UNKNOWN.  Invariant: nothing wraps.  Every sum in the question lies within the width by the ranges of its atoms, so that
vectors satisfy the conditions where integers do.  Non-goals: wide numbers, quotients of negative numbers by what is no
power of two, and quotients by what may be zero: UNKNOWN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond, polys
from snap._compiler.analysis.exact.terms import Atom, Poly, Terms
from snap._compiler.analysis.solvers.oracles import ask_z3
from snap._compiler.analysis.solvers.solve import UNKNOWN, NoModel

MOST_WIDTH = 64
_COMPARED = {logic.GE: "bvsge", logic.EQ: "="}
_CHOSEN = {kinds.MIN: "bvsle", kinds.MAX: "bvsge"}


def is_of_bits(atoms: Iterable[Atom]) -> bool:
    """Decide whether to ask: whether bits of two numbers meet, or numbers are taken apart into several."""
    cut = 0
    for atom in atoms:
        if atom.kind is kinds.AND:
            return True
        cut += atom.kind is kinds.FLOOR and atom.parts[1] & atom.parts[1] - 1 == 0
    return cut > 1


class NotInBits(Exception):
    """The question has what vectors of this width do not say."""


def ask_in_bits(terms: Terms, conds: list[Cond], steps: int) -> tuple[dict[Atom, int] | NoModel, int]:
    """Return the answer, and the steps that it took."""
    try:
        lines, base = _Vectors(terms, conds).lines()
    except NotInBits:
        return UNKNOWN, 0
    found, took = ask_z3(lines, steps)
    return (found if isinstance(found, NoModel) else {atom: found.get(_name(atom), atom.low) for atom in base}), took


def _name(atom: Atom) -> str:
    return f"m{atom.number}"


def _most(p: Poly) -> int:
    """Bound the magnitude of a sum, and of each part of it."""
    return sum(abs(k) * math.prod(max(abs(a.low), abs(a.high)) for a in mono) for mono, k in p.terms.items())


class _Vectors:
    """Print one question.  All vectors have one width, which holds every sum in it with its sign."""

    def __init__(self, terms: Terms, conds: list[Cond]):
        self.terms, self.conds = terms, conds
        sums = [p for c in conds for p in polys(c)]
        self.atoms = sorted({atom for p in sums for atom in p.inside}, key=lambda atom: atom.number)
        sums += [p for atom in self.atoms for p in atom.polys]
        ends = [max(abs(atom.low), abs(atom.high)) for atom in self.atoms]
        self.width = max([*map(_most, sums), *ends, 1]).bit_length() + 2
        if self.width > MOST_WIDTH:
            raise NotInBits

    def lines(self) -> tuple[list[str], list[Atom]]:
        """Atoms are numbered as they are made, so that each is defined after its parts."""
        found, base = [], []
        sort = f"(_ BitVec {self.width})"
        for atom in self.atoms:
            if atom.defined:
                found.append(f"(define-fun {_name(atom)} () {sort} {self._defined(atom)})")
            else:
                base.append(atom)
                low, high = self._number(atom.low), self._number(atom.high)
                ends = f"(and (bvsle {low} {_name(atom)}) (bvsle {_name(atom)} {high}))"
                found.append(f"(declare-const {_name(atom)} {sort})(assert {ends})")
        return [*found, *(f"(assert {self._cond(c)})" for c in self.conds)], base

    def _number(self, n: int) -> str:
        return f"(_ bv{n % (1 << self.width)} {self.width})"

    def _defined(self, atom: Atom) -> str:
        match atom.kind, atom.parts:
            case kinds.FLOOR, (x, n) if n & n - 1 == 0:
                return f"(bvashr {self._sum(x)} {self._number(n.bit_length() - 1)})"
            case kinds.FLOOR, (x, n) if self.terms.span(x)[0] >= 0:
                return f"(bvudiv {self._sum(x)} {self._number(n)})"
            case ((kinds.DIV | kinds.MOD) as kind, (x, y)) if self.terms.span(x)[0] >= 0 and self.terms.span(y)[0] >= 1:
                return f"({'bvudiv' if kind is kinds.DIV else 'bvurem'} {self._sum(x)} {self._sum(y)})"
            case kinds.AND, (x, y, _):
                return f"(bvand {self._sum(x)} {self._sum(y)})"
            case kinds.ITE, (c, x, y):
                return f"(ite {self._cond(c)} {self._sum(x)} {self._sum(y)})"
            case ((kinds.MIN | kinds.MAX) as kind, (x, y)):
                one, other = self._sum(x), self._sum(y)
                return f"(ite ({_CHOSEN[kind]} {one} {other}) {one} {other})"
        raise NotInBits

    def _sum(self, p: Poly) -> str:
        parts = [self._number(p.constant)]
        for mono, k in p.terms.items():
            if mono:
                factors = " ".join(map(_name, mono))
                parts.append(factors if k == 1 and len(mono) == 1 else f"(bvmul {self._number(k)} {factors})")
        return parts[0] if len(parts) == 1 else f"(bvadd {' '.join(parts)})"

    def _cond(self, c: Cond) -> str:
        match c:
            case ((logic.AND | logic.OR) as word, *inner):
                return f"({word} {' '.join(map(self._cond, inner))})"
            case (logic.NE, p):
                return f"(not (= {self._sum(p)} {self._number(0)}))"
            case (kind, p):
                return f"({_COMPARED[kind]} {self._sum(p)} {self._number(0)})"
            case _:
                assert c in (TRUE, FALSE)
                return str(c[0])
