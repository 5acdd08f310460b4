"""Say what is known of products of unknowns, for solvers that take each product for an unknown of its own.

Input: conditions (terms.py), with those that define atoms.  Output: lemmas: conditions that follow from them, over the
products in them.  Invariant: they follow, over the integers.  Non-goals: completeness.

  quotients   `q = x / (k*d)` and `x < P*d` makes `k*q < P`, whichever of two equal numbers d is called by
  factors     `g*t <= P` and g >= 1, t >= 0 makes `t <= P`
  ends        x >= 2 and y >= 3 makes (x - 2) * (y - 3) >= 0, and so on
  signs       x > 0 makes x*y >= y for y >= 0, and so on; x = 0 makes x*y = 0
  pairs       `x < y` makes `x*c + c <= y*c` for c >= 0; x = y makes the products equal
  alike       x = x' and y = y' makes `x*y = x'*y'`
  chained     the same with two factors, also by way of one product that is not there
  multiples   what is not negative, times a factor that is not; what is added to it and is in no product at its most
  digits      `r*S + c = 0` told apart by r < 0, r = 0, r > 0
  rows        the same of r - q, where one condition has r*S and another one q*S
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.logic import Cond, each, polys
from snap._compiler.analysis.exact.terms import Atom, Mono, Poly, without

MOST_LEMMAS = 400
MOST_ROWS = 6  # of one size, that are compared with each other
SMALL, FAR = 64, 1 << 30  # a range; what says that something leaves its type
ROUNDS = 2  # in which products that were found lead to others
WIDE = 1 << 40  # ends beyond that say nothing of use


def ge(p: Poly) -> Cond:
    return (logic.GE, p)


class Lemmas:
    """Derive what conditions say of the products in them.

    sure    what has no alternatives
    cases   what has
    """

    def __init__(self, conds: list[Cond], axioms: list[Cond], atoms: list[Atom]):
        self.monos = {mono for c in (*conds, *axioms) for p in polys(c) for mono in p.terms if len(mono) > 1}
        ordered = sorted(self.monos, key=_named)
        flat = list(each((*conds, *axioms)))
        known = [p for c in flat for p in ([c[1]] if c[0] == logic.GE else [c[1], -c[1]] if c[0] == logic.EQ else [])]
        quotients = [atom for atom in atoms if atom.kind is kinds.DIV]
        limits = [*known, *_renamed(flat, known)] if quotients else known
        bounds: list[Poly] = []
        for atom in quotients:  # by number: what one of another is made of comes first
            bounds += _quotient(atom, [*limits, *bounds])
        bounds += [less for p in known for less in _without_factors(p)]
        self.known = list(dict.fromkeys([*bounds, *limits]))
        found: list[Cond] = [ge(p) for p in bounds]
        for mono in ordered:
            for k, atom in enumerate(mono):
                found += _box(mono, atom, mono[:k] + mono[k + 1 :])
        found += _multiples([*bounds, *known, *_loosened(known, self.monos)], self.monos)
        cases: list[Cond] = []
        for one, other in itertools.combinations(ordered, 2):
            cases += _pair(one, other) or _alike(one, other)
        for c in flat:
            if c[0] == logic.EQ:
                cases += _digits(c[1])
        for mono in ordered:
            for k, atom in enumerate(mono):
                cases += _signs(mono, atom, mono[:k] + mono[k + 1 :])
        cases += _between_rows([c[1] for c in flat if c[0] == logic.GE])
        self.sure = [c for c in dict.fromkeys(found) if c[0] != logic.OR][:MOST_LEMMAS]
        self.cases = [*(c for c in found if c[0] == logic.OR), *cases][:MOST_LEMMAS]

    @cached_property
    def chained(self) -> list[Cond]:
        """Return what has no alternatives, and leads to products that are not there yet."""
        return _chained(self.known, self.monos)[:MOST_LEMMAS]


def _quotient(q: Atom, known: list[Poly]) -> list[Poly]:
    """q = x / y, y = k*d, and x < P*d: then k*q < P.  What is small in x counts at its most."""
    x, y = q.parts
    if x.span()[0] < 0 or y.span()[0] < 1 or len(y.terms) != 1 or y.constant:
        return []
    ((divisor, k),) = y.terms.items()
    small = {m: n for m, n in x.terms.items() if len(m) == 1 and m[0].high - m[0].low <= SMALL}
    most = x - Poly(small) + sum(n * (m[0].high if n > 0 else m[0].low) for m, n in small.items())
    found = []
    for top in dict.fromkeys((x, most)):
        limits = [p * times for p in known for times in _times(top, p)]
        further = [p + q for p in limits for q in known if len((p + q).terms) < len(p.terms) + len(q.terms) - 1]
        for p in dict.fromkeys([*limits, *further]):
            above = p + top  # P*d - constant, constant >= 1
            rest = {mono: n for mono, n in above.terms.items() if mono}
            if k > 0 > above.constant and all(Counter(divisor) <= Counter(mono) for mono in rest):
                times = Poly({_less(mono, divisor): n for mono, n in rest.items()})
                limit = times - Poly({(q,): k}) - 1
                by = math.gcd(*(n for mono, n in limit.terms.items() if mono)) or 1  # of whole numbers, as many
                found.append(Poly({mono: n // by for mono, n in limit.terms.items() if n // by}))
    return found


def _times(x: Poly, p: Poly) -> list[int]:
    """So many times p, where that is a limit of x: it has all of its terms, taken off."""
    terms = {mono: n for mono, n in x.terms.items() if mono}
    scales = {-n // p.terms[mono] for mono, n in terms.items() if p.terms.get(mono, 0) and n % p.terms[mono] == 0}
    return [k for k in scales if k > 0 and all(p.terms.get(mono, 0) * k == -n for mono, n in terms.items())]


def _renamed(flat: list[Cond], known: list[Poly]) -> list[Poly]:
    """Write what is known of products with one name for two equal atoms: that of the one that was named later."""
    names: dict[Atom, Atom] = {}
    for c in flat:
        if c[0] == logic.EQ and sorted(c[1].terms.values()) == [-1, 1] and all(len(mono) == 1 for mono in c[1].terms):
            one, other = sorted((mono[0] for mono in c[1].terms), key=lambda atom: atom.number)
            names[one] = other
    found = []
    for p in known if names else ():
        said = Poly({})
        for mono, k in p.terms.items():
            said = said + Poly({tuple(sorted((names.get(a, a) for a in mono), key=lambda a: a.number)): k})
        if said.terms and said != p and any(len(mono) > 1 for mono in said.terms):
            found.append(said)
    return found


def _without_factors(p: Poly) -> list[Poly]:
    """P - g*t >= 0 and g >= 1, t >= 0: then P - t >= 0."""
    found = []
    for mono, k in p.terms.items():
        if k < 0 and len(mono) > 1:
            for one in dict.fromkeys(mono):
                rest = Poly({_less(mono, (one,)): 1})
                if one.low >= 1 and rest.span()[0] >= 0:
                    found.append(p - Poly({mono: k}) + rest * k)
    return found


def _loosened(known: list[Poly], monos: set[Mono]) -> list[Poly]:
    """p + k*c >= 0, where c is in no product: then p + the most that k*c can be is not negative, and a factor times
    that is made of products that are there.
    """
    factors = {atom for mono in monos for atom in mono}
    found = []
    for p in known:
        loose: dict[Mono, int] = {m: k for m, k in p.terms.items() if len(m) == 1 and m[0] not in factors}
        if loose and abs(p.constant) >= FAR and any(m and m[0] in factors for m in p.terms):
            found.append(p - Poly(loose) + sum(k * (m[0].high if k > 0 else m[0].low) for m, k in loose.items()))
    return found


def _multiples(known: list[Poly], monos: set[Mono]) -> list[Cond]:
    """Multiply what is not negative by factors that are not negative, where most of the products are in the question
    already.
    """
    factors: list[Mono] = [(atom,) for atom in sorted({a for mono in monos for a in mono}, key=lambda a: a.number)]
    factors += sorted({pair for mono in monos if len(mono) > 3 for pair in itertools.combinations(mono, 2)}, key=_named)
    there = _multiplied(factors, monos)
    found: list[Cond] = []
    for p, atom in itertools.product(dict.fromkeys(known), factors):
        many = len(p.terms) - (() in p.terms and len(atom) == 1)  # products
        enough = many if len(atom) > 1 else (many + 1) // 2  # of products of two, all that it takes
        if len(p.terms) > 1 and many and sum(mono in there[atom] for mono in p.terms if mono) >= enough:
            fact, positive = ge(p * Poly({atom: 1})), all(one.low >= 0 for one in atom)
            found.append(fact if positive else (logic.OR, ge(Poly({atom: -1}) - 1), fact))
    return found


def _multiplied(factors: Iterable[Mono], monos: set[Mono]) -> dict[Mono, set[Mono]]:
    """Return by factor what it is multiplied by in one of the products; () where it is alone."""
    return {f: {rest for mono in monos if (rest := without(mono, f)) is not None} for f in factors}


def _chained(known: list[Poly], monos: set[Mono]) -> list[Cond]:
    """Multiply what is not negative by two factors of a product of three or more, where that leads from products which
    stand in the question, or were found so, to one that does not, at most.  From `u < v`, `w + v <= U` and `j < s`
    follows `((w + u) * s + j) * P + P <= U*s*P`, by way of v*s*P and s*P.
    """
    pairs = {pair for mono in monos if len(mono) > 2 for pair in itertools.combinations(mono, 2)}
    factors = sorted((pair for pair in pairs if all(atom.low >= 0 for atom in pair)), key=_named)
    there, all_, found = _multiplied(factors, monos), set(monos), dict[Cond, None]()
    for _ in range(ROUNDS):
        for p, pair in itertools.product(known, factors):
            new = [mono for mono in p.terms if mono not in there[pair]]
            if len(p.terms) > 1 and len(new) < 2 < len(p.terms) + 1 - len(new):
                product = p * Poly({pair: 1})
                found[ge(product)] = None
                if new:
                    all_.update(product.terms)
                    there = _multiplied(factors, all_)
    return [*found, *_multiples(known, all_)] if found else []


def _less(mono: Mono, divisor: Mono) -> Mono:
    """The product without factors that it has."""
    rest = without(mono, divisor)
    assert rest is not None
    return rest


def _named(mono: Mono) -> tuple[int, ...]:
    return tuple(atom.number for atom in mono)


def _box(mono: Mono, atom: Atom, rest: Mono) -> list[Cond]:
    """x*y, by the ends of x and of y: (x - low) * (y - least) is not negative, and so on."""
    m, x, y = Poly({mono: 1}), Poly({(atom,): 1}), Poly({rest: 1})
    found = []
    for i, j in itertools.product(x.span(), y.span()):  # a corner
        if abs(i) <= WIDE and abs(j) <= WIDE:
            product = m - x * j - y * i + i * j
            found.append(ge(product if (i == x.span()[0]) == (j == y.span()[0]) else -product))
    return found


def _signs(mono: Mono, atom: Atom, rest: Mono) -> list[Cond]:
    m, x, y = Poly({mono: 1}), Poly({(atom,): 1}), Poly({rest: 1})
    found: list[Cond] = [(logic.OR, (logic.NE, x), (logic.EQ, m))]
    low, high = y.span()
    if low >= 0:
        found += [(logic.OR, ge(-x), ge(m - y)), (logic.OR, ge(x), ge(-m - y))]
    else:
        found += [(logic.OR, ge(-x), ge(-y - 1), ge(m - y)), (logic.OR, ge(-x), ge(y), ge(-m - x))]
        found += [(logic.OR, ge(x), ge(-y - 1), ge(-m - y)), (logic.OR, ge(x), ge(y), ge(m + x))]
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
        (logic.OR, *guard, ge(x - y), ge(n - m - c)),
        (logic.OR, *guard, ge(y - x), ge(m - n - c)),
        (logic.OR, (logic.NE, x - y), (logic.EQ, m - n)),
    ]


def _alike(one: Mono, other: Mono) -> list[Cond]:
    """x*y and x'*y', of the same kinds: equal where the factors are."""
    if len(one) != len(other) or any(a.kind != b.kind for a, b in zip(one, other)):
        return []
    apart: list[Cond] = [(logic.NE, Poly({(a,): 1}) - Poly({(b,): 1})) for a, b in zip(one, other)]
    return [(logic.OR, *apart, (logic.EQ, Poly({one: 1}) - Poly({other: 1})))]


def _digits(p: Poly) -> list[Cond]:
    """p = r*S + c: where r > 0 it is r*S >= S, and so on; for every S in a product of it."""
    found: list[Cond] = []
    for atom in _factors([p]):
        row = _times_of(p, atom)
        if all(len(mono) < 3 for mono in row.terms) and len(row.terms) > 1:
            found += _whole_rows(row, atom)
            found += _digits(row)  # which may be such a sum itself: of rows that blocks take in turn
    return found


def _whole_rows(row: Poly, atom: Atom) -> list[Cond]:
    """r*S is S at least where r is positive, -S at most where it is negative, and else 0; S is not negative."""
    size = Poly({(atom,): 1})
    return [
        (logic.OR, ge(-row), ge(row * size - size)),
        (logic.OR, ge(row), ge(-(row * size) - size)),
        (logic.OR, (logic.NE, row), (logic.EQ, row * size)),
    ]


def _between_rows(known: list[Poly]) -> list[Cond]:
    """`x >= r*S` and `x < q*S + S` tell r and q apart as an equation would: of what S is multiplied by in two
    conditions, the difference.
    """
    found: list[Cond] = []
    for atom in _factors(known):
        rows: dict[Poly, None] = {}
        for p in known:
            row = _times_of(p, atom)
            if len(row.terms) > 1:
                rows[row if next(iter(row.terms.values())) > 0 else -row] = None
        for one, other in itertools.combinations(list(rows)[:MOST_ROWS], 2):
            found += _whole_rows(one - other, atom) + _digits(one - other)
    return found


def _factors(known: list[Poly]) -> list[Atom]:
    """Return the factors of products that are not negative."""
    factors = {a for p in known for mono in p.terms if len(mono) > 1 for a in mono}
    return [atom for atom in sorted(factors, key=lambda a: a.number) if atom.low >= 0]


def _times_of(p: Poly, atom: Atom) -> Poly:
    """Return what a factor is multiplied by."""
    r: dict[Mono, int] = {}
    for mono, k in p.terms.items():
        if atom in mono:
            at = mono.index(atom)
            r[mono[:at] + mono[at + 1 :]] = k
    return Poly(r)
