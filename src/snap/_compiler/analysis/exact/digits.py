"""Equations that are made of digits, taken apart.

Input: conditions (terms.py) that hold together.  Output: the same, with equations in place of others from which they
follow, and which follow from them.  Invariant: exact, over the integers, for numbers in the ranges of their atoms.
Non-goals: answers (ladder.py).

    n*a + y == 0                                 and -n < y < n: y is a multiple of n, and so it is 0, and a is
    S*a + p - q == 0, 0 <= p < S, 0 <= q < S     the same of a size that is no number: a is 0, and p is q
    a == b                                       in products, and in what quotients are of, one replaces the other

That is how tiles are numbered: `128 * tile + row` is the same for two blocks where the tile is, and the row, if rows
are from 0 to 127.  A row that is put together from the parts of a thread's number, `t % 2 * 4 + t / 16 % 2 * 8`, has
ends that the ranges of `t / 2` and `t / 16`, each by itself, do not show: so what one small number decides is counted
out.
"""

from __future__ import annotations

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.conditions import atoms_of, equal
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.renaming import Replaced
from snap._compiler.analysis.exact.terms import Atom, Poly, Terms, evaluated, number
from snap._compiler.ir.hardware import BLOCK_THREADS
from snap._compiler.ir.integers import Range

MOST_COUNTED = BLOCK_THREADS  # values of a number that are counted out
# What a number decides: a quotient by zero may be anything.
COUNTED = frozenset((kinds.FLOOR, kinds.MIN, kinds.MAX, kinds.AND))
ROUNDS = 3  # what is taken apart names numbers, by which more is


class Digits:
    """Take the questions of one kernel apart; what an equation comes to is kept."""

    def __init__(self, terms: Terms):
        self.terms = terms
        self._known: dict[Poly, list[Cond]] = {}

    def taken_apart(self, conds: list[Cond]) -> list[Cond]:
        for _ in range(ROUNDS):
            said = self._by_numbers(_by_sizes(conds))
            said = _one_for_both(self.terms, said)
            if said == conds:
                break
            conds = said
        return conds

    def _by_numbers(self, conds: list[Cond]) -> list[Cond]:
        found: list[Cond] = []
        for c in conds:
            if c[0] == logic.EQ and c[1] not in self._known:
                self._known[c[1]] = by_numbers(c[1])
            found += self._known[c[1]] if c[0] == logic.EQ else [c]
        return list(dict.fromkeys(found))


# ---- sizes that are numbers -----------------------------------------------------------------------------------------


def by_numbers(p: Poly) -> list[Cond]:
    """p == 0, by digits: each of them zero."""
    for n in sorted({abs(k) for mono, k in p.terms.items() if mono and abs(k) > 1}, reverse=True):
        below = {mono: k for mono, k in p.terms.items() if mono and k % n}
        if not below:
            continue
        low, high = ends(Poly(below))
        # Whole multiples of n in the constant belong to the digits above.
        for rest in (p.constant % n, p.constant % n - n):
            if -n < low + rest and high + rest < n:
                digit = Poly(below) + rest
                above = Poly({mono: k // n for mono, k in (p - digit).terms.items()})
                return [*by_numbers(above), *by_numbers(digit)]
    return [equal(p, 0)]


def ends(p: Poly) -> Range:
    """Between which numbers it lies: of what one small number decides exactly, of all else by ranges."""
    of: dict[Atom | None, Poly] = {}
    for mono, k in p.terms.items():
        of_one = _decided_by(mono[0]) if len(mono) == 1 else None
        of[of_one] = of.get(of_one, number(0)) + Poly({mono: k})
    low = high = 0
    for atom, part in of.items():
        if atom is None or len(part.terms) == 1:
            least, most = part.span()
        else:
            values = [evaluated(part, {atom: n}) for n in range(atom.low, atom.high + 1)]
            least, most = min(values), max(values)
        low, high = low + least, high + most
    return low, high


def _decided_by(atom: Atom) -> Atom | None:
    """The one number of few values that decides what it is."""
    inside = atoms_of([], [Poly({(atom,): 1})])
    base = [one for one in inside if not one.defined]
    known = len(base) == 1 and all(one.kind in COUNTED for one in inside if one.defined)
    return base[0] if known and base[0].high - base[0].low < MOST_COUNTED else None


# ---- sizes that are not ---------------------------------------------------------------------------------------------


def _by_sizes(conds: list[Cond]) -> list[Cond]:
    """Find the numbers of which conditions say that they are digits of one size."""
    if not any(c[0] == logic.EQ and any(len(mono) > 1 for mono in c[1].terms) for c in conds):
        return conds
    digits = _digits(conds)
    found: list[Cond] = []
    for c in conds:
        found += (_of_a_size(c[1], digits) if c[0] == logic.EQ else None) or [c]
    return found


def _digits(conds: list[Cond]) -> list[tuple[Atom, Poly]]:
    """p and S with `p >= 0` and `S - 1 - p >= 0`."""
    least = {c[1]: None for c in conds if c[0] == logic.GE}
    found = []
    for q in least:
        for mono, k in q.terms.items():
            if k == 1 and len(mono) == 1:
                p = Poly({mono: 1}) - 1 - q
                if p in least:
                    found.append((mono[0], p))
    return found


def _of_a_size(e: Poly, digits: list[tuple[Atom, Poly]]) -> list[Cond] | None:
    """e == 0, where it is S*a + p - q."""
    for size, p in digits:
        for q in (other for of, other in digits if of is size):
            rest = e - p + q
            if rest.terms and all(size in mono for mono in rest.terms):
                return [equal(_divided(rest, size), 0), equal(p - q, 0)]
    return None


def _divided(p: Poly, atom: Atom) -> Poly:
    return Poly({mono[: mono.index(atom)] + mono[mono.index(atom) + 1 :]: k for mono, k in p.terms.items()})


# ---- two names of one number ----------------------------------------------------------------------------------------


def _one_for_both(terms: Terms, conds: list[Cond]) -> list[Cond]:
    """Put one atom for two that are equal, in products and inside of floors, minima, maxima and choices: the one that
    was made first.  The equations stay.
    """
    names: dict[Atom, Poly] = {}
    for c in conds:
        if c[0] == logic.EQ and sorted(c[1].terms.values()) == [-1, 1] and all(len(mono) == 1 for mono in c[1].terms):
            first, second = sorted((mono[0] for mono in c[1].terms), key=lambda atom: atom.number)
            names.setdefault(second, Poly({(first,): 1}))
    return [Replaced(terms, names).cond(c) for c in conds] if names else conds
