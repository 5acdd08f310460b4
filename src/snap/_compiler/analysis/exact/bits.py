"""`x & y` as a term.

Input: two polynomials (terms.py).  Output: one that is their bitwise and, or None.  Invariant: exact, of any numbers.
Non-goals: what holds of the atoms that it makes (system.py).
"""

from __future__ import annotations

import math

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.terms import ZERO, Poly, Terms, number

BITS = 16  # of numbers that are looked at bit by bit


def bitand(terms: Terms, x: Poly, y: Poly) -> Poly | None:
    """None where the operands are not numbers of few bits."""
    a, b = x.value, y.value
    if a is not None and b is not None:
        return number(a & b)
    if a is not None and b is None:
        x, y, a, b = y, x, b, a
    if b is not None and b >= 0:
        return _bits_of(terms, x, b)
    for one, other in ((x, y), (y, x)):
        for mono, k in one.terms.items():  # (p ^ y) & y is what y has, and p has not
            if k == -2 and len(mono) == 1 and mono[0].kind is kinds.AND and other in mono[0].parts[:2]:
                if one == mono[0].parts[0] + mono[0].parts[1] - Poly({mono: 2}):
                    return other - Poly({mono: 1})
    for one, other in ((x, y), (y, x)):
        place = math.gcd(*other.terms.values())
        bit = Poly({mono: k // place for mono, k in other.terms.items()})
        low, high = terms.span(bit)
        if place & place - 1 == 0 and 0 <= low and high <= 1:  # one bit, in its place
            return terms.least(terms.modulo(terms.floor(one, place), 2), bit) * place
    spans = terms.span(x), terms.span(y)
    if min(spans[0][0], spans[1][0]) < 0 or max(spans[0][1], spans[1][1]) >= 1 << BITS:
        return None
    bits = min(spans[0][1], spans[1][1]).bit_length()
    first, second = sorted((x, y), key=lambda p: sorted(([atom.number for atom in m], k) for m, k in p.terms.items()))
    return terms.defined(kinds.AND, (first, second, bits), 0, min(spans[0][1], spans[1][1]))


def _bits_of(terms: Terms, x: Poly, mask: int) -> Poly:
    """Return the bits of the mask, stretch by stretch: bits 2 to 4 are x / 4 % 8, in their place, of any number."""
    found, at = ZERO, 0
    while mask >> at:
        many = (~(mask >> at) & (mask >> at) + 1).bit_length() - 1  # ones from here on
        found = found + terms.modulo(terms.floor(x, 1 << at), 1 << many) * (1 << at)
        at += many or 1
    return found
