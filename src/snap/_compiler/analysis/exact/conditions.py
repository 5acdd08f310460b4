"""Put conditions over polynomials together.

Input and output: polynomials (terms.py) and conditions (logic.py).  Invariant: what is decided by the ranges of the
atoms alone is TRUE or FALSE.  Non-goals: what depends on several facts (ladder.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.logic import AND, EQ, FALSE, GE, NE, OR, TRUE, Cond, each, mapped, polys
from snap._compiler.analysis.exact.terms import Atom, Poly
from snap._compiler.ir.types import Level


def at_least(x: Poly | int, y: Poly | int) -> Cond:
    """x >= y, of which one is a polynomial."""
    p: Any = x - y
    low, high = p.span()
    return TRUE if low >= 0 else FALSE if high < 0 else (GE, p)


def below(x: Poly, y: Poly | int) -> Cond:
    """x < y"""
    return at_least(y - 1, x)


def equal(x: Poly, y: Poly | int) -> Cond:
    p = x - y
    low, high = p.span()
    return TRUE if low == high == 0 else FALSE if low > 0 or high < 0 else (EQ, p)


def both(*conds: Cond) -> Cond:
    kept: dict[Cond, None] = {}
    for one in each(conds):
        if one == FALSE:
            return FALSE
        if one != TRUE:
            kept[one] = None
    return TRUE if not kept else next(iter(kept)) if len(kept) == 1 else (AND, *kept)


def either(*conds: Cond) -> Cond:
    return negated(both(*map(negated, conds)))


def negated(c: Cond) -> Cond:
    if c in (TRUE, FALSE):
        return FALSE if c == TRUE else TRUE
    return at_least(-c[1], 1) if c[0] == GE else mapped(c, lambda p: p, negated, _OPPOSITE[c[0]])


_OPPOSITE = {EQ: NE, NE: EQ, AND: OR, OR: AND}


def simple(c: Cond) -> Cond:
    """The same, decided where ranges decide."""
    if c[0] in (AND, OR):
        return (both if c[0] == AND else either)(*map(simple, c[1:]))
    if c[0] in (EQ, NE):
        return equal(c[1], 0) if c[0] == EQ else negated(equal(c[1], 0))
    return at_least(c[1], 0) if c[0] == GE else c


def atoms_of(conds: Iterable[Cond], more: Iterable[Poly] = ()) -> list[Atom]:
    """All atoms, those inside of defined ones included, by number."""
    found = [p.inside for c in conds for p in polys(c)]
    return sorted(frozenset().union(*found, *(p.inside for p in more)), key=lambda atom: atom.number)


def from_memory(conds: Iterable[Cond], more: Iterable[Poly] = ()) -> bool:
    """Tell whether values decide that no launch gives, and that were not computed from such: what memory holds."""
    return any(atom.kind is kinds.ANY and atom.per.level is not Level.GRID for atom in atoms_of(conds, more))
