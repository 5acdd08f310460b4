"""Say conditions of other numbers than those that they were written for.

Input: numbers, and what replaces each.  Output: polynomials and conditions.  Invariant: exact, wherever the numbers
that replace others lie: what is made of them is made anew, with a range of its own.  Non-goals: renaming numbers to
others of the same range (terms.py).
"""

from __future__ import annotations

from collections.abc import Callable

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.terms import Atom, Poly, Renaming, Terms


class NotFollowed(Exception):
    """Report that a number is made of what cannot be said of others."""


class Substitution(Renaming):
    def __init__(self, terms: Terms, numbers: dict[Atom, Poly]):
        super().__init__(terms, 0, lambda atom: True)
        for atom, p in numbers.items():
            self.put(atom, p)

    def _renamed(self, atom: Atom) -> Poly:
        if not atom.defined:
            return Poly({(atom,): 1})
        parts = tuple(
            self.poly(part) if isinstance(part, Poly) else self.cond(part) if isinstance(part, tuple) else part
            for part in atom.parts
        )
        if parts == atom.parts:
            return Poly({(atom,): 1})
        terms = self.terms
        again: dict[str, Callable[..., Poly]] = {
            kinds.FLOOR: terms.floor,
            kinds.MIN: terms.least,
            kinds.MAX: terms.most,
            kinds.ITE: terms.choose,
        }
        if atom.kind not in again:
            raise NotFollowed
        return again[atom.kind](*parts)


def undivided(terms: Terms, p: Poly) -> Poly:
    """The same: `x / y * y + x % y` is x, also where all of it is multiplied."""
    for rest in [atom for atom in p.atoms if atom.kind is kinds.MOD]:
        x, y = rest.parts
        quotient, instead = terms.divide(x, y), terms.side(0, lambda atom: True)
        if quotient.atoms <= p.atoms:
            instead.put(rest, x - y * quotient)
            found = instead.poly(p)
            p = p if quotient.atoms <= found.atoms else found
    return p
