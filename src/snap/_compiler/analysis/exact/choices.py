"""Questions with choices, told apart way by way.

Input: conditions (terms.py), and a solver that answers them.  Output: NO, or UNKNOWN.  Invariant: NO only where no way
has numbers; a way is the question with a choice's condition, or its opposite, and what the choice is then in its place:
the same question under that condition.  Non-goals: models; more than `MOST_WAYS` ways.
"""

from __future__ import annotations

from collections.abc import Callable

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.terms import (
    FALSE,
    Atom,
    Cond,
    Poly,
    Terms,
    at_least,
    atoms_of,
    both,
    either,
    equal,
    negated,
    number,
)
from snap._compiler.analysis.solvers.solve import NO, UNKNOWN, NoModel

MOST_WAYS = 64


class Ways:
    """thorough: whether there are certainly no numbers, with all that solvers can do."""

    def __init__(self, terms: Terms, thorough: Callable[[list[Cond]], bool]):
        self.terms, self.thorough, self.left = terms, thorough, MOST_WAYS

    def none(self, conds: list[Cond]) -> NoModel:
        """NO where no way has numbers."""
        conds = self._settled(conds)
        if FALSE in conds:
            return NO
        chosen = _choices(conds)
        if not chosen:
            self.left -= 1
            return NO if self.left >= 0 and self.thorough(conds) else UNKNOWN
        cond = chosen[0].parts[0]
        for known, part in ((cond, 1), (negated(cond), 2)):
            if self.left <= 0 or self.none([known, *self._with(conds, {a: a.parts[part] for a in chosen})]) is not NO:
                return UNKNOWN
        return NO

    def _settled(self, conds: list[Cond]) -> list[Cond]:
        """Put a number in the place of what is equal to it."""
        said = both(*map(simple, conds))
        conds = list(said[1:]) if said[0] == logic.AND else [said]
        for c in conds:
            if c[0] == logic.EQ and len(c[1].terms) <= 2 and len(c[1].atoms) == 1:
                ((atom, k),) = ((mono[0], k) for mono, k in c[1].terms.items() if mono)
                if not atom.defined and (atom,) in c[1].terms:
                    if c[1].constant % k or not atom.low <= -c[1].constant // k <= atom.high:
                        return [FALSE]
                    return self._settled(self._with(conds, {atom: number(-c[1].constant // k)}))
        return conds

    def _with(self, conds: list[Cond], instead: dict[Atom, Poly]) -> list[Cond]:
        side = self.terms.side(0, lambda atom: True)
        for atom, p in instead.items():
            side.put(atom, p)
        return [side.cond(c) for c in conds]


def _choices(conds: list[Cond]) -> list[Atom]:
    """Return the choices by one condition that depends on no other choice, the one with the fewest numbers."""
    found: dict[Cond, list[Atom]] = {}
    sizes: dict[Cond, int] = {}
    for atom in atoms_of(conds):
        if atom.kind is kinds.ITE:
            inside = atoms_of([atom.parts[0]])
            if not any(inner.kind is kinds.ITE for inner in inside):
                found.setdefault(atom.parts[0], []).append(atom)
                sizes[atom.parts[0]] = len(inside)
    return found[min(sizes, key=lambda c: sizes[c])] if found else []


def simple(c: Cond) -> Cond:
    """The same, decided where ranges decide."""
    match c:
        case (logic.GE, p):
            return at_least(p, 0)
        case (logic.EQ, p):
            return equal(p, 0)
        case (logic.NE, p):
            return negated(equal(p, 0))
        case (logic.AND, *inner):
            return both(*map(simple, inner))
        case (logic.OR, *inner):
            return either(*map(simple, inner))
        case _:
            return c
