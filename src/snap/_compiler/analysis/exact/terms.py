"""Integers as polynomials over atoms.

A `Poly` is a sum of products of atoms with integer factors.  An `Atom` is a number of the program (`BASE`: a thread's
position, a parameter, a loop's counter, a value that was read), or defined by others (`DEFINED`, kinds.py):

    (DIV, x, y)        x / y, rounded toward zero, y != 0; where y is 0, any number
    (MOD, x, y)        what x / y leaves; x is not negative, and y is positive, by their ranges
    (FLOOR, x, n)      x / n rounded down; n is a positive number
    (AND, x, y, bits)  x & y of two numbers of that many bits
    (ITE, c, x, y)     x where the condition holds, else y
    (MIN, x, y) (MAX, x, y)

Input and output: polynomials, and conditions over them (logic.py).  Invariant: everything is exact over the integers,
nothing wraps, nothing is guessed.  `span` is where a polynomial lies by the ranges of its atoms alone.  Non-goals: what
depends on several facts (ladder.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, KeysView
from typing import Any

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.kinds import AtomKind
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond, holds_for, polys
from snap._compiler.ir.integers import Range
from snap._compiler.ir.strides import IndexArithmetic
from snap._compiler.ir.types import GRID1, Privilege

Mono = tuple["Atom", ...]  # sorted by number; () for the constant


class Atom:
    """kind: what it is (kinds.py); of DEFINED ones that of the table above, with `parts`.  per: who agrees on it.
    depth: how many loops with an unknown number of trips are around the place where it gets its value.  inside: it,
    those that it is defined by, and theirs.
    """

    __slots__ = ("number", "kind", "parts", "low", "high", "per", "depth", "name", "defined", "inside")

    def __init__(self, number: int, kind: AtomKind, parts: tuple, span: Range, per: Privilege, depth: int, name: str):
        self.number, self.kind, self.parts, (self.low, self.high) = number, kind, parts, span
        self.per, self.depth, self.name, self.defined = per, depth, name, kind in kinds.DEFINED
        self.inside = frozenset([self]).union(*[p.inside for p in self.polys])

    @property
    def polys(self) -> list[Poly]:
        """Return those that it is made of, also as parts of a condition."""
        inner = (polys(part) if isinstance(part, tuple) else (part,) for part in self.parts)
        return [p for ps in inner for p in ps if isinstance(p, Poly)]

    def mapped(self, poly: Callable[[Poly], Any], cond: Callable[[Cond], Any]) -> tuple:
        """Return what is made of its parts, by what each is."""
        made = (poly(p) if isinstance(p, Poly) else cond(p) if isinstance(p, tuple) else p for p in self.parts)
        return tuple(made)

    def __hash__(self) -> int:
        """So that sets of atoms have one order in every process."""
        return self.number

    def __repr__(self) -> str:
        if not self.defined:
            return self.name or f"{self.kind}{self.number}"
        return f"{self.kind}({', '.join(map(str, self.parts))})"


def _number(atom: Atom) -> int:
    return atom.number


class Poly:
    """Immutable; equal where the terms are."""

    __slots__ = ("terms", "_hash", "_inside")

    def __init__(self, terms: dict[Mono, int]):
        self.terms = terms
        self._hash: int | None = None
        self._inside: frozenset[Atom] | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __add__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            other = number(other)
        terms = dict(self.terms)
        for mono, k in other.terms.items():
            total = terms.get(mono, 0) + k
            if total:
                terms[mono] = total
            else:
                terms.pop(mono, None)
        return Poly(terms)

    __radd__ = __add__

    def __neg__(self) -> Poly:
        return Poly({mono: -k for mono, k in self.terms.items()})

    def __sub__(self, other: Poly | int) -> Poly:
        return self + -other

    def __rsub__(self, other: int) -> Poly:
        return number(other) - self

    def __mul__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            return Poly({mono: k * other for mono, k in self.terms.items()}) if other else ZERO
        terms: dict[Mono, int] = {}
        for (a, j), (b, k) in itertools.product(self.terms.items(), other.terms.items()):
            mono = a + b if not a or not b else tuple(sorted(a + b, key=_number))
            terms[mono] = terms.get(mono, 0) + j * k
        return Poly({mono: k for mono, k in terms.items() if k})

    __rmul__ = __mul__

    @property
    def constant(self) -> int:
        return self.terms.get((), 0)

    @property
    def value(self) -> int | None:
        """The number that it is, if it is one."""
        return self.constant if not self.terms or len(self.terms) == 1 and () in self.terms else None

    @property
    def atoms(self) -> KeysView[Atom]:
        """In the order of the terms: that of a set would be another one in each process."""
        return dict.fromkeys([atom for mono in self.terms for atom in mono]).keys()

    @property
    def inside(self) -> frozenset[Atom]:
        """Its atoms, and those inside of defined ones."""
        if self._inside is None:
            self._inside = frozenset().union(*[atom.inside for mono in self.terms for atom in mono])
        return self._inside

    def span(self) -> Range:
        low = high = 0
        for mono, k in self.terms.items():
            least = most = k
            for atom, group in itertools.groupby(mono):
                power = len(list(group))
                ends = [atom.low**power, atom.high**power]
                if power % 2 == 0 and atom.low < 0 < atom.high:
                    ends.append(0)
                corners = [least * end for end in ends] + [most * end for end in ends]
                least, most = min(corners), max(corners)
            low, high = low + least, high + most
        return low, high

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        shown = []
        for mono, k in self.terms.items():
            factors = [*(str(k) for _ in range(k != 1 or not mono)), *map(str, mono)]
            shown.append(" * ".join(factors))
        return " + ".join(shown)


ZERO = Poly({})


def number(n: int) -> Poly:
    return Poly({(): n}) if n else ZERO


def _of_floor(p: Poly) -> Atom | None:
    """The quotient by a number of which it is a sum with a constant."""
    terms = [(mono, k) for mono, k in p.terms.items() if mono]
    alone = len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1
    return terms[0][0][0] if alone and terms[0][0][0].kind is kinds.FLOOR else None


def _of_remainder(p: Poly) -> Range | None:
    """Find from where to where x / a - x / (a * m) * m is, which is a remainder by m."""
    if len(p.terms) == 2 and () not in p.terms:
        for (first, k), (second, less) in itertools.permutations(p.terms.items()):
            if k == 1 and less < -1 and len(first) == len(second) == 1 and second[0].kind is kinds.FLOOR:
                x, n = second[0].parts
                of, a = first[0].parts if first[0].kind is kinds.FLOOR else (Poly({first: 1}), 1)
                if of == x and n == -less * a:
                    return 0, -less - 1
    return None


def _exact(x: Poly, y: Poly) -> Poly | None:
    """x / y, where y is one product that is in every term of x, or x itself."""
    if x == y:
        return number(1)
    ((divisor, k), *others) = y.terms.items()
    rests = {mono: without(mono, divisor) for mono in x.terms}
    if others or None in rests.values() or any(n % k for n in x.terms.values()):
        return None
    return Poly({rest: x.terms[mono] // k for mono, rest in rests.items() if rest is not None})


def without(mono: Mono, divisor: Mono) -> Mono | None:
    """Return a product without some of its factors; None where it does not have them."""
    rest = list(mono)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


class Terms:
    """Makes atoms.  Defined ones that are equal are one."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self._known: dict[object, Poly] = {}
        self._spans: dict[Poly, Range] = {}  # of remainders, and of others that are known to lie there
        self._definitions: dict[Atom, list[Cond]] = {}
        self.arithmetic: IndexArithmetic[Poly] = IndexArithmetic(
            self.floor, self.modulo, lambda x, n: x * n, lambda x, y: x + y
        )

    def span(self, p: Poly) -> Range:
        """Return where a polynomial lies: by the ranges of its atoms, as a remainder, or as it was told."""
        low, high = p.span()
        least, most = self._spans.get(p) or self._multiple(p) or (low, high)
        return max(low, least), min(high, most)

    def _multiple(self, p: Poly) -> Range | None:
        """Find its ends as those of a multiple of what is known: `x % 8 * 4` is at most 28."""
        k = math.gcd(*p.terms.values()) if len(p.terms) > 1 else 1
        one = Poly({mono: n // k for mono, n in p.terms.items()}) if k > 1 else p
        known = self._spans.get(one) or _of_remainder(one)
        return known and (known[0] * k, known[1] * k)

    def tell(self, p: Poly, low: int, high: int) -> None:
        """Between which numbers it lies, of every launch."""
        least, most = self.span(p)
        self._spans[p] = max(low, least), min(high, most)

    def base(
        self,
        kind: AtomKind,
        low: int,
        high: int,
        per: Privilege = GRID1,
        depth: int = 0,
        name: str = "",
        key: object = None,
    ) -> Poly:
        """A new number of the program.  key: where it is the same again."""
        if key is None:
            return self._atom(kind, (), low, high, per, depth, name)
        if ("base", kind, key) not in self._known:
            self._known["base", kind, key] = self._atom(kind, (), low, high, per, depth, name)
        return self._known["base", kind, key]

    def _atom(
        self, kind: AtomKind, parts: tuple, low: int, high: int, per: Privilege = GRID1, depth: int = 0, name: str = ""
    ) -> Poly:
        if low == high:
            return number(low)
        atom = Atom(len(self.atoms), kind, parts, (low, high), per, depth, name)
        self.atoms.append(atom)
        return Poly({(atom,): 1})

    def defined(self, kind: AtomKind, parts: tuple, low: int, high: int) -> Poly:
        key = (kind, *parts)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._atom(kind, parts, low, high)
        return found

    # ---- operations ----

    def floor(self, x: Poly, n: int) -> Poly:
        """x / n, rounded down; n > 0."""
        if n == 1:
            return x
        # Of each factor, and of the constant, whole multiples of n come out; what is left of a factor keeps its sign.
        whole = {m: k // n if k > 0 else -(-k // n) for m, k in x.terms.items() if m}
        exact = Poly({m: k for m, k in whole.items() if k}) + x.constant // n
        rest = Poly({m: x.terms[m] - k * n for m, k in whole.items() if x.terms[m] % n}) + x.constant % n
        low, high = self.span(rest)
        if low // n == high // n:
            return exact + low // n
        inner = _of_floor(rest)
        if inner is not None:  # (y / m + c) / n is (y + c*m) / (m*n), all rounded down
            y, m = inner.parts
            return exact + self.floor(y + rest.constant * m, m * n)
        return exact + self.defined(kinds.FLOOR, (rest, n), low // n, high // n)

    def modulo(self, x: Poly, n: int) -> Poly:
        """Return the remainder, from 0 to n - 1."""
        rest = x - self.floor(x, n) * n
        self._spans[rest] = (0, n - 1)
        return rest

    def divide(self, x: Poly, y: Poly, ends: Range | None = None) -> Poly:
        """Rounded toward zero.  Where y is zero, any number between the ends."""
        n, (low, high) = y.value, self.span(x)
        if n is not None and n < 0:
            return -self.divide(x, -y)
        if n is not None and n > 0:
            if low >= 0:
                return self.floor(x, n)
            if high <= 0:
                return -self.floor(-x, n)
            if all(k % n == 0 for k in x.terms.values()):
                return Poly({mono: k // n for mono, k in x.terms.items()})
            return self.defined(kinds.DIV, (x, y), -(-low // n), high // n)
        exact = _exact(x, y) if self.span(y)[0] > 0 else None
        if exact is not None:
            return exact
        most = max(abs(low), abs(high))
        if low >= 0 and self.span(y)[0] >= 1:
            return self.defined(kinds.DIV, (x, y), 0, high)
        if ends is not None and self.span(y)[0] <= 0 <= self.span(y)[1]:
            return self.defined(kinds.DIV, (x, y), min(-most, ends[0]), max(most, ends[1]))
        return self.defined(kinds.DIV, (x, y), -most, most)

    def remainder(self, x: Poly, y: Poly, ends: Range | None = None) -> Poly:
        """It has the sign of x."""
        n = y.value
        if n is not None and n < 0:
            return self.remainder(x, -y)
        rest = x - y * self.divide(x, y, ends)
        if n is not None and n > 0:
            low, high = self.span(x)
            self._spans[rest] = (0 if low >= 0 else -n + 1, 0 if high <= 0 else n - 1)
        elif rest.terms and n is None and self.span(x)[0] >= 0 and self.span(y)[0] >= 1:
            return self.defined(kinds.MOD, (x, y), 0, min(self.span(x)[1], self.span(y)[1] - 1))
        return rest

    def least(self, x: Poly, y: Poly) -> Poly:
        (a, b), (c, d) = self.span(x), self.span(y)
        if b <= c or x == y:
            return x
        return y if d <= a else self.defined(kinds.MIN, (x, y), min(a, c), min(b, d))

    def most(self, x: Poly, y: Poly) -> Poly:
        (a, b), (c, d) = self.span(x), self.span(y)
        if a >= d or x == y:
            return x
        return y if c >= b else self.defined(kinds.MAX, (x, y), max(a, c), max(b, d))

    def choose(self, cond: Cond, x: Poly, y: Poly) -> Poly:
        if cond == TRUE or x == y:
            return x
        if cond == FALSE:
            return y
        (a, b), (c, d) = self.span(x), self.span(y)
        return self.defined(kinds.ITE, (cond, x, y), min(a, c), max(b, d))

    def wrapped(self, x: Poly, low: int, high: int) -> Poly:
        """The number from low to high that is x up to a multiple of their distance."""
        least, most = self.span(x)
        return x if low <= least and most <= high else self.modulo(x - low, high - low + 1) + low

    def tighten(self) -> None:
        """Ranges of base atoms have become narrower: so do those of what is defined by them."""
        for atom in self.atoms:
            match atom.kind, atom.parts:
                case kinds.FLOOR, (x, n):
                    low, high = (end // n for end in self.span(x))
                case kinds.DIV, (x, y) if self.span(x)[0] >= 0 and self.span(y)[0] >= 1:
                    low, high = 0, self.span(x)[1] // self.span(y)[0]
                case (kinds.MIN | kinds.MAX) as kind, (x, y):
                    of = min if kind is kinds.MIN else max
                    low, high = (of(ends) for ends in zip(self.span(x), self.span(y)))
                case _:
                    continue
            atom.low, atom.high = max(atom.low, low), min(atom.high, high)

    def defining(self, atom: Atom, define: Callable[[Terms, Atom], list[Cond]]) -> list[Cond]:
        """Return what holds of a defined atom: worked out once."""
        found = self._definitions.get(atom)
        if found is None:
            found = self._definitions[atom] = define(self, atom)
        return found

    def of_side(self, side: int, atom: Atom) -> Poly:
        """Name what an atom of the program is for one of two threads."""
        name = f"{atom.name or atom.kind + str(atom.number)}#{side}"
        return self.base(atom.kind, atom.low, atom.high, atom.per, atom.depth, name, key=(side, atom))


# ---- evaluation -----------------------------------------------------------------------------------------------------


def evaluated(p: Poly, at: dict[Atom, int]) -> int:
    """Its value, by plain evaluation, where the base atoms are these numbers; a quotient by zero is 0."""
    total = 0
    for mono, k in p.terms.items():
        for atom in mono:
            k *= _value(atom, at)
        total += k
    return total


def _value(atom: Atom, at: dict[Atom, int]) -> int:
    """Evaluate a defined atom by its definition."""
    if atom in at:
        return at[atom]
    match atom.kind, atom.parts:
        case kinds.FLOOR, (x, n):
            found = evaluated(x, at) // n
        case kinds.DIV, (x, y):
            a, b = evaluated(x, at), evaluated(y, at)
            found = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case kinds.MOD, (x, y):
            found = evaluated(x, at) % evaluated(y, at)
        case kinds.AND, (x, y, _):
            found = evaluated(x, at) & evaluated(y, at)
        case kinds.ITE, (c, x, y):
            found = evaluated(x if holds(c, at) else y, at)
        case ((kinds.MIN | kinds.MAX), (x, y)):
            found = (min if atom.kind is kinds.MIN else max)(evaluated(x, at), evaluated(y, at))
        case _:
            raise KeyError(atom)
    at[atom] = found
    return found


def holds(c: Cond, at: dict[Atom, int]) -> bool:
    return holds_for(c, lambda p: evaluated(p, at))


# ---- `x & y` --------------------------------------------------------------------------------------------------------


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
