"""Find the thread that writes an element whose index is an exclusive or: `s[t / 32, (t % 32) ^ (t / 32)]`.

Input: the indices of a write, and the element that is read.  Output: for an index `x ^ y`, the number that x is: the
element's index ^ y, where y is known from the others.  Invariant: where those indices are the element's, so is this one
if, and only if, x is that number.  Non-goals: what x is made of, which isl is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.bits import bitand
from snap._compiler.analysis.exact.conditions import at_least
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.renaming import of_products
from snap._compiler.analysis.exact.terms import Atom, Poly, Terms


def operands(i: Poly) -> tuple[Poly, Poly] | None:
    """x and y, where it is x ^ y, which is written x + y - 2 * (x & y)."""
    for mono, k in i.terms.items():
        if k == -2 and len(mono) == 1 and mono[0].kind is kinds.AND:
            x, y, _ = mono[0].parts
            if i == x + y - Poly({mono: 2}):
                return x, y
    return None


class Exclusive:
    """known: indices of a write, each with the element's.  same: whether a number of the write is the read's, too: its
    thread is not, though both are called alike.
    """

    def __init__(self, terms: Terms, known: Iterable[tuple[Poly, Poly]], same: Callable[[Atom], bool]):
        self.terms, self.same = terms, same
        alone = [(mono, e) for i, e in known for mono in i.terms if len(mono) == 1 and i == Poly({mono: 1})]
        self.known = {mono[0]: e for mono, e in alone}

    def solved(self, i: Poly, e: Poly) -> tuple[Poly, Poly] | None:
        """x, and what it is where the index is e; None of an index that is no such thing."""
        found = operands(i)
        for x, y in () if found is None else (found, found[::-1]):
            given = self._given(y)
            common = None if given is None else bitand(self.terms, e, given)
            if given is not None and common is not None:
                return x, e + given - common * 2
        return None

    def _given(self, y: Poly) -> Poly | None:
        """In numbers of the read."""
        told = {atom: Poly({(atom,): 1}) if self.same(atom) else self._of_element(atom) for atom in y.atoms}
        known = {atom: p for atom, p in told.items() if p is not None}
        return None if None in told.values() else of_products(y, lambda mono: map(known.__getitem__, mono))

    def _of_element(self, atom: Atom) -> Poly | None:
        """An index, or a further quotient of one: t / 256 is t / 32 / 8."""
        for of, e in self.known.items():
            if of is atom:
                return e
            if of.kind is kinds.FLOOR and atom.kind is kinds.FLOOR and of.parts[0] == atom.parts[0]:
                if atom.parts[1] % of.parts[1] == 0:
                    return self.terms.floor(e, atom.parts[1] // of.parts[1])
        return None


def of_bits(terms: Terms, atom: Atom) -> list[Cond]:
    """Return what linear arithmetic knows of x & y: no more than either, and x | y has no more bits than both."""
    x, y, _ = atom.parts
    both, most = Poly({(atom,): 1}), max(terms.span(x)[1], terms.span(y)[1])
    limit = (1 << most.bit_length()) - 1
    return [at_least(x, both), at_least(y, both), at_least(both + limit, x + y)]
