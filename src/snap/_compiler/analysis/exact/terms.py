"""Integers as polynomials over atoms, and conditions over them.

A `Poly` is a sum of products of atoms with integer factors.  An `Atom` is a number of the program (`BASE`: a thread's
position, a parameter, a loop's counter, a value that was read), or defined by others (`DEFINED`, kinds.py):

    (DIV, x, y)        x / y, rounded toward zero, y != 0; where y is 0, any number
    (MOD, x, y)        what x / y leaves; x is not negative, and y is positive, by their ranges
    (FLOOR, x, n)      x / n rounded down; n is a positive number
    (AND, x, y, bits)  x & y of two numbers of that many bits
    (ITE, c, x, y)     x where the condition holds, else y
    (MIN, x, y) (MAX, x, y)

A condition is a tuple (logic.py): (GE, p) for p >= 0, (EQ, p) for p == 0, (NE, p), (AND, ...), (OR, ...), TRUE, FALSE.
Input and output: both.  Invariant: everything is exact over the integers, nothing wraps, nothing is guessed.  `span` is
where a polynomial lies by the ranges of its atoms alone.  Non-goals: what depends on several facts (ladder.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, KeysView

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.kinds import AtomKind
from snap._compiler.ir.integers import Range
from snap._compiler.ir.types import GRID1, Level, Privilege

Mono = tuple["Atom", ...]  # sorted by number; () for the constant
Cond = tuple
TRUE: Cond = (logic.TRUE,)
FALSE: Cond = (logic.FALSE,)


class Atom:
    """kind: what it is (kinds.py); of DEFINED ones that of the table above, with `parts`.  per: who agrees on it.
    depth: how many loops with an unknown number of trips are around the place where it gets its value.  inside: it,
    those that it is defined by, and theirs.
    """

    __slots__ = ("number", "kind", "parts", "low", "high", "per", "depth", "name", "defined", "inside")

    def __init__(self, number: int, kind: AtomKind, parts: tuple, span: Range, per: Privilege, depth: int, name: str):
        self.number, self.kind, self.parts, (self.low, self.high) = number, kind, parts, span
        self.per, self.depth, self.name, self.defined = per, depth, name, kind in kinds.DEFINED
        inner = [list(polys(part)) if isinstance(part, tuple) else [part] for part in parts]
        self.inside = frozenset([self]).union(*[p.inside for ps in inner for p in ps if isinstance(p, Poly)])

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
        self._sides: dict[tuple[int, Atom], Poly] = {}
        self._spans: dict[Poly, Range] = {}  # of remainders, and of others that are known to lie there
        self._definitions: dict[Atom, list[Cond]] = {}

    def span(self, p: Poly) -> Range:
        """Return where a polynomial lies: by the ranges of its atoms, as a remainder, or as it was told."""
        low, high = p.span()
        least, most = self._spans.get(p, (low, high))
        return max(low, least), min(high, most)

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
        if key is not None and ("base", kind, key) in self._known:
            return self._known["base", kind, key]
        made = self._atom(kind, (), low, high, per, depth, name)
        if key is not None:
            self._known["base", kind, key] = made
        return made

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

    # ---- renaming ----

    def side(self, side: int, shared: Callable[[Atom], bool]) -> Renaming:
        return Renaming(self, side, shared)

    def of_side(self, side: int, atom: Atom) -> Poly:
        found = self._sides.get((side, atom))
        if found is None:
            name = f"{atom.name or atom.kind + str(atom.number)}#{side}"
            found = self._atom(atom.kind, (), atom.low, atom.high, atom.per, atom.depth, name)
            self._sides[side, atom] = found
        return found


class Renaming:
    """Rename what is true of one of two threads that are compared: its own atoms get names of their own."""

    def __init__(self, terms: Terms, side: int, shared: Callable[[Atom], bool]):
        self.terms, self.number, self.shared = terms, side, shared
        self._atoms: dict[Atom, Poly] = {}
        self._polys: dict[Poly, Poly] = {}
        self._conds: dict[Cond, Cond] = {}

    def put(self, atom: Atom, p: Poly) -> None:
        """Name what replaces an atom."""
        self._atoms[atom] = p

    def poly(self, p: Poly) -> Poly:
        found = self._polys.get(p)
        if found is None:
            found = ZERO
            for mono, k in p.terms.items():
                product = number(k)
                for atom in mono:
                    product = product * self.atom(atom)
                found = found + product
            self._polys[p] = found
        return found

    def atom(self, atom: Atom) -> Poly:
        found = self._atoms.get(atom)
        if found is None:
            found = self._atoms[atom] = self._renamed(atom)
        return found

    def _renamed(self, atom: Atom) -> Poly:
        if not atom.defined:
            return Poly({(atom,): 1}) if self.shared(atom) else self.terms.of_side(self.number, atom)
        parts = tuple(
            self.poly(part) if isinstance(part, Poly) else self.cond(part) if isinstance(part, tuple) else part
            for part in atom.parts
        )
        if parts == atom.parts:
            return Poly({(atom,): 1})
        return self.terms.defined(atom.kind, parts, atom.low, atom.high)

    def cond(self, c: Cond) -> Cond:
        found = self._conds.get(c)
        if found is None:
            match c:
                case (logic.GE | logic.EQ | logic.NE, p):
                    found = (c[0], self.poly(p))
                case (logic.AND | logic.OR, *inner):
                    found = (c[0], *(self.cond(one) for one in inner))
                case _:
                    found = c
            self._conds[c] = found
        return found


# ---- conditions -----------------------------------------------------------------------------------------------------


def at_least(x: Poly, y: Poly | int) -> Cond:
    """x >= y"""
    p = x - y
    low, high = p.span()
    return TRUE if low >= 0 else FALSE if high < 0 else (logic.GE, p)


def below(x: Poly, y: Poly | int) -> Cond:
    """x < y"""
    return at_least((y if isinstance(y, Poly) else number(y)) - 1, x)


def equal(x: Poly, y: Poly | int) -> Cond:
    p = x - y
    low, high = p.span()
    return TRUE if low == high == 0 else FALSE if low > 0 or high < 0 else (logic.EQ, p)


def both(*conds: Cond) -> Cond:
    kept: dict[Cond, None] = {}
    for c in conds:
        for one in c[1:] if c[0] == logic.AND else (c,):
            if one == FALSE:
                return FALSE
            if one != TRUE:
                kept[one] = None
    return TRUE if not kept else next(iter(kept)) if len(kept) == 1 else (logic.AND, *kept)


def either(*conds: Cond) -> Cond:
    return negated(both(*map(negated, conds)))


def negated(c: Cond) -> Cond:
    match c:
        case (logic.TRUE,):
            return FALSE
        case (logic.FALSE,):
            return TRUE
        case (logic.GE, p):
            return at_least(-p, 1)
        case (logic.EQ, p):
            return (logic.NE, p)
        case (logic.NE, p):
            return (logic.EQ, p)
        case (logic.AND, *inner):
            return (logic.OR, *map(negated, inner))
        case (logic.OR, *inner):
            return (logic.AND, *map(negated, inner))
        case _:
            raise ValueError(c)


def polys(c: Cond) -> Iterable[Poly]:
    match c:
        case (logic.GE | logic.EQ | logic.NE, p):
            yield p
        case (logic.AND | logic.OR, *inner):
            for one in inner:
                yield from polys(one)


def atoms_of(conds: Iterable[Cond], more: Iterable[Poly] = ()) -> list[Atom]:
    """All atoms, those inside of defined ones included, by number."""
    found = [p.inside for c in conds for p in polys(c)]
    return sorted(frozenset().union(*found, *(p.inside for p in more)), key=_number)


def from_memory(conds: Iterable[Cond], more: Iterable[Poly] = ()) -> bool:
    """Tell whether values decide that no launch gives, and that were not computed from such: what memory holds."""
    return any(atom.kind is kinds.ANY and atom.per.level is not Level.GRID for atom in atoms_of(conds, more))
