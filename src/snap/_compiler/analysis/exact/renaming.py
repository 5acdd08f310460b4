"""Polynomials and conditions said of other numbers than those that they were written for.

Input: numbers, and what replaces each.  Output: polynomials and conditions.  Invariant: exact: what is made of numbers
that replace others of the same range has the range that it had (`Renaming`); wherever they lie, it is made anew, with a
range of its own (`Substitution`, `Replaced`).  Non-goals: which numbers are replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.logic import Cond, mapped
from snap._compiler.analysis.exact.terms import ZERO, Atom, Poly, Terms, number


class Renaming:
    """Rename what is true of one of two threads that are compared: its own atoms get names of their own.  Without a
    side, all are shared but those that are `put`.
    """

    def __init__(self, terms: Terms, side: int = 0, shared: Callable[[Atom], bool] = lambda atom: True):
        self.terms, self.number, self.shared = terms, side, shared
        self._atoms: dict[Atom, Poly] = {}
        self._polys: dict[Poly, Poly] = {}
        self._conds: dict[Cond, Cond] = {}

    def put(self, numbers: dict[Atom, Poly]) -> Renaming:
        """Name what replaces these atoms."""
        self._atoms.update(numbers)
        return self

    def poly(self, p: Poly) -> Poly:
        found = self._polys.get(p)
        if found is None:
            found = self._polys[p] = of_products(p, lambda mono: map(self.atom, mono))
        return found

    def atom(self, atom: Atom) -> Poly:
        found = self._atoms.get(atom)
        if found is None:
            found = self._atoms[atom] = self._renamed(atom)
        return found

    def _renamed(self, atom: Atom) -> Poly:
        if not atom.defined and not self.shared(atom):
            return self.terms.of_side(self.number, atom)
        parts = atom.mapped(self.poly, self.cond)
        return Poly({(atom,): 1}) if parts == atom.parts else self.rebuilt(atom, parts)

    def rebuilt(self, atom: Atom, parts: tuple) -> Poly:
        """Return what an atom is that is defined by other parts."""
        return self.terms.defined(atom.kind, parts, atom.low, atom.high)

    def cond(self, c: Cond) -> Cond:
        found = self._conds.get(c)
        if found is None:
            found = self._conds[c] = mapped(c, self.poly, self.cond)
        return found


def of_products(p: Poly, factors: Callable[[tuple[Atom, ...]], Iterable[Poly]]) -> Poly:
    """Return the same sum of other products."""
    return sum((math.prod(factors(mono), start=number(k)) for mono, k in p.terms.items()), ZERO)


def made_anew(terms: Terms) -> dict[str, Callable[..., Poly]]:
    """Return by kind how an atom is made of its parts."""
    return {kinds.FLOOR: terms.floor, kinds.MIN: terms.least, kinds.MAX: terms.most, kinds.ITE: terms.choose}


class NotFollowed(Exception):
    """Report that a number is made of what cannot be said of others."""


class Substitution(Renaming):
    def rebuilt(self, atom: Atom, parts: tuple) -> Poly:
        if atom.kind not in made_anew(self.terms):
            raise NotFollowed
        return made_anew(self.terms)[atom.kind](*parts)


class Replaced:
    """Conditions in which numbers are said otherwise, where they are multiplied, or are inside of quotients:
    what is made of them is made anew, with a range of its own.  instead: what each is.
    """

    def __init__(self, terms: Terms, instead: dict[Atom, Poly]):
        self.terms, self.instead = terms, instead

    def cond(self, c: Cond) -> Cond:
        return mapped(c, self.poly, self.cond)

    def poly(self, p: Poly, everywhere: bool = False) -> Poly:
        """everywhere: also what is in no product."""
        return of_products(p, lambda mono: (self.atom(atom, everywhere or len(mono) > 1) for atom in mono))

    def atom(self, atom: Atom, everywhere: bool) -> Poly:
        if everywhere and atom in self.instead:
            return self.instead[atom]
        if atom.kind not in (kinds.FLOOR, kinds.MIN, kinds.MAX):
            return Poly({(atom,): 1})
        parts = atom.mapped(lambda p: self.poly(p, True), self.cond)
        return Poly({(atom,): 1}) if parts == atom.parts else made_anew(self.terms)[atom.kind](*parts)


def undivided(terms: Terms, p: Poly) -> Poly:
    """The same: `x / y * y + x % y` is x, also where all of it is multiplied."""
    for rest in [atom for atom in p.atoms if atom.kind is kinds.MOD]:
        x, y = rest.parts
        quotient = terms.divide(x, y)
        if quotient.atoms <= p.atoms:
            found = Renaming(terms).put({rest: x - y * quotient}).poly(p)
            p = p if quotient.atoms <= found.atoms else found
    return p
