"""What is known of products of unknowns, for solvers that take each product for an unknown of its own.

Input: conditions (terms.py).  Output: lemmas: conditions that follow from them, over the products that stand in them.
Invariant: they follow, over the integers.  Non-goals: completeness.

  signs       x > 0 makes x*y >= y for y >= 0, and so on; x = 0 makes x*y = 0
  pairs       `x < y` makes `x*c + c <= y*c` for c >= 0; x = y makes the products equal
  multiples   what is not negative, times a factor that is not
  digits      `r*S + c = 0` told apart by r < 0, r = 0, r > 0
"""

from __future__ import annotations

import itertools
from collections import Counter

from snap.prove.terms import Atom, Cond, Mono, Poly, polys

MOST_LEMMAS = 400


def ge(p: Poly) -> Cond:
    return ("ge", p)


def lemmas(conds: list[Cond], axioms: list[Cond]) -> list[Cond]:
    """What follows from the conditions, of products that stand in them."""
    monos = {mono for c in (*conds, *axioms) for p in polys(c) for mono in p.terms if len(mono) > 1}
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
