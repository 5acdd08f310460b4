"""Reads and writes as sets of integers, which isl takes from each other.

Input: a read, and writes that come before it (covered.py).  Output: what is left of the read, as an isl set over all
the numbers that it depends on; None where isl gave up.  Invariant: the set of a read holds every point at which it can
be; the set of a write holds only points for which some thread and iteration exists that has written there.  Products of
unknowns are unknowns; a write whose thread or iteration stands in one is left out.  Of a write whose index is an
exclusive or, `s[t / 32, (t % 32) ^ (t / 32)]`, x in `x ^ y` is the element's index ^ y, where y is known from the other
indices, or from the bits of the element's above y: where those are the element's, so is this one if, and only if, x is
that number.

Names: `a7` is number 7 of the read, and of the launch; `x7` is number 7 of the write, and may be chosen; `d2_7` is
number 7 of the second write, and may be anything; `m...` are products.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.ask import isl_sum, isl_text
from snap._compiler.analysis.exact.conditions import at_least, atoms_of, equal
from snap._compiler.analysis.exact.logic import Cond, polys
from snap._compiler.analysis.exact.renaming import Replaced, of_products
from snap._compiler.analysis.exact.slices import Slices
from snap._compiler.analysis.exact.system import alternatives, defining
from snap._compiler.analysis.exact.terms import ZERO, Atom, Poly, Terms, bitand
from snap._compiler.analysis.solvers.oracles import PointSet, isl_steps
from snap._compiler.ir.types import GRID1, THREAD1
from snap.prove.properties.context import ProofContext
from snap.prove.properties.covered import Before, Touch
from snap.prove.properties.extents import flat, inside
from snap.prove.replay import SIZES

MOST_OPERATIONS = 1_000_000  # of isl, for one question
MOST_ALTERNATIVES = 64  # of which a read is made
NEAR = (0, 1, 2, 3, 4, 5, -1, 7, 8, -2)  # numbers of a launch, in the order in which they are tried
NAME = re.compile(r"\b[adxm]\d\w*|\bm[adx]\w*")
AtomNamer = Callable[[Atom], str]


class Beyond(Exception):
    """Nothing that isl can be asked."""


def given(atom: Atom) -> str:
    return f"a{atom.number}"


def limited() -> AbstractContextManager[None]:
    """isl takes no more than so many steps; what is not found until then is not found."""
    return isl_steps(MOST_OPERATIONS)


class Sets:
    """One read, and what is known of the numbers in it.  coarse: only what its way says, without alternatives, which
    does where it is read on the same way that it was written, and is asked first.

    universe  names of numbers that are given, each with its range
    said      what holds of them
    """

    def __init__(self, c: ProofContext, read: Touch, ways: Iterable[Before], coarse: bool = False):
        self.coarse, self.alternatives = coarse, 1
        self.c, self.read = c, read
        self.universe: dict[str, tuple[int, int]] = {}
        self.said: dict[str, None] = {}
        self.atoms: set[Atom] = set()
        self.writes: list[str] = []
        self.all: PointSet | None = None
        self.left: PointSet | None = None
        self.element = _element(c, read)
        asked = self._asked(ways)
        if coarse:  # the set of the read may be too large: only what its way says of these numbers and of no others
            known = set(asked)
            conds = [one for one in read.path if known.issuperset(atoms_of([one]))]
        else:
            conds = [*c.facts, *read.path]
        self.say(Slices([*conds, *inside(self.element, read.shape)], asked).left, self.element)
        for b in ways:
            self.add(b)

    def _asked(self, ways: Iterable[Before]) -> list[Atom]:
        """The numbers on which it depends what is left.  Of others, only that there are some: to isl each is a
        dimension, and a loop over registers has many.
        """
        conds: list[Cond] = []
        more = [*self.element, *((self.read.rank,) if self.read.rank is not None else ())]
        more += [] if self.coarse else self.c.names.values()
        more += [loop.trip for loop in self.read.when.loops]
        for w in (b.write for b in ways):
            conds += [one for one in w.path if one not in self.c.found.defines]
            more += [*w.index, *((w.rank,) if w.rank is not None else ())]
        return atoms_of(conds, more)

    # ---- what is given ----

    def say(self, conds: Iterable[Cond], more: Iterable[Poly] = ()) -> None:
        conds = list(conds)
        self.learn(atoms_of(conds, more))
        for one in conds:
            # isl writes alternatives out; the set of the read may be too large, never too small.
            many = self.alternatives * alternatives(one)
            if many <= (1 if self.coarse else MOST_ALTERNATIVES):
                self.alternatives = many
                self.said[self.cond(one, given)] = None

    def learn(self, atoms: Iterable[Atom]) -> None:
        """Atoms of the read, with what defines them."""
        new = [atom for atom in atoms if atom not in self.atoms]
        self.atoms |= set(new)
        for atom in new:
            self.universe[given(atom)] = (atom.low, atom.high)
        for atom in new:
            if atom.defined and atom.kind is not kinds.AND and (not self.coarse or atom.kind is kinds.FLOOR):
                self.say(defining(self.c.terms, atom))
            elif atom.kind is kinds.AND:
                self.say(of_bits(self.c.terms, atom))

    # ---- text ----

    def poly(self, p: Poly, name: AtomNamer) -> str:
        return isl_sum(p, lambda mono: self.product(mono, name))

    def product(self, mono: tuple[Atom, ...], name: AtomNamer) -> str:
        """Name a product: of several numbers, an unknown of its own."""
        if len(mono) == 1:
            return name(mono[0])
        names = [name(atom) for atom in mono]
        if any(one.startswith(("x", "(")) for one in names):
            raise Beyond
        text = "m" + "".join(sorted(names))
        self.universe[text] = Poly({mono: 1}).span()
        return text

    def cond(self, c: Cond, name: AtomNamer) -> str:
        return isl_text(c, lambda mono: self.product(mono, name))

    # ---- writes ----

    def add(self, b: Before) -> bool:
        """Takes a write into account; False where isl cannot be asked about it."""
        try:
            self.writes.append(_Written(self, b, len(self.writes)).text())
        except Beyond:
            return False
        return True

    # ---- the question ----

    def given(self) -> str:
        """All that holds where it is read."""
        ranges = [f"{low} <= {one} <= {high}" for one, (low, high) in self.universe.items()]
        return " and ".join([*self.said, *ranges]) or "0 = 0"

    def key(self) -> tuple[str, ...]:
        """The question, whatever its numbers are called: loops that are run out ask the same again and again."""
        names: dict[str, str] = {}
        called = lambda name: names.setdefault(name[0], f"n{len(names)}")  # noqa: E731
        return tuple(NAME.sub(called, text) for text in (", ".join(self.universe), self.given(), *self.writes))

    def solve(self) -> None:
        """Finds what no write covers."""
        self.all = rest = PointSet([*self.universe], self.given())
        for text in self.writes:
            if rest.empty:
                break
            rest = rest.without(text)
        self.left = rest

    def needs(self) -> str:
        """A condition on one number of a launch under which nothing is left, in the words of `where=`; '' for none."""
        if self.left is None or self.all is None:
            return ""
        for word, p in self.words():
            for said, text in self._ends(self.left, word, p):
                if self.left.where(said).empty and not self.all.where(said).empty:
                    return text
        return ""

    def _ends(self, left: PointSet, word: str, p: Poly) -> Iterator[tuple[str, str]]:
        """Conditions that leave out the numbers for which something is left.  Each as isl has it, and in words."""
        text = self.poly(p, given)
        if word == "blocks":
            yield f"{text} = 1", "blocks == 1"
        ((mono, k), *more) = [(mono, k) for mono, k in p.terms.items() if mono]
        if more or k != 1:
            return
        end = left.most(given(mono[0]))
        if end is not None and end + p.constant < 1:  # more would leave out launches that somebody wants
            n = end + p.constant + 1
            yield f"{text} >= {n}", f"{word} >= {n}"

    def words(self) -> list[tuple[str, Poly]]:
        """Return what a launch is given, as far as the read depends on it: blocks first, lengths last."""
        found = [(word, p) for word, p in self.c.names.items() if p.atoms and p.atoms <= self.atoms and _linear(p)]
        return sorted(found, key=lambda one: (one[0] != "blocks", one[0].startswith("len(")))

    def points(self) -> Iterator[dict[Atom, int]]:
        """Numbers for which something is left: small launches first, with arrays that are long."""
        if self.left is None:
            return
        words = self.words()
        for k, size in enumerate(SIZES):
            small, near, length = self.left, (*NEAR[k:], *NEAR[:k]), size.length
            for word, p in words:
                small = small.where(f"{-size.of(word)} <= {self.poly(p, given)} <= {size.of(word)}")
            if small.empty:
                continue
            for word, p in words:
                small = self._settled(small, p, (length, *near) if word.startswith("len(") else near)
            value = small.point()
            at = {atom: length for word, p in self.c.names.items() if word.startswith("len(") for atom in p.atoms}
            yield at | {atom: value[given(atom)] for atom in self.atoms if not atom.defined}

    def _settled(self, points: PointSet, p: Poly, values: Iterable[int]) -> PointSet:
        """With the first of these numbers that p can be."""
        for n in values:
            there = points.where(f"{self.poly(p, given)} = {n}")
            if not there.empty:
                return there
        return points


def _linear(p: Poly) -> bool:
    return all(len(mono) < 2 for mono in p.terms)


def _multiplies(w: Touch) -> bool:
    """Return whether there are products in what it is known by."""
    said = [*w.index, *(p for c in w.path for p in polys(c))]
    said += [p for atom in atoms_of([], said) for p in atom.polys]
    return not all(map(_linear, said))


class _Written:
    """One write, as a condition on the numbers of the read."""

    def __init__(self, sets: Sets, b: Before, number_: int):
        c = sets.c
        self.sets, self.b, self.number = sets, b, number_
        self.chosen = {*b.counters(), *(() if b.self else c.walk.thread.atoms)}
        if b.write.rank is not None and not b.self:
            self.chosen |= c.walk.block.atoms
        self.bound: dict[str, Atom] = {}
        self._same: dict[Atom, bool] = {}
        self.plain: set[Poly] = set()  # indices of which an equation is counted on

    def same(self, atom: Atom) -> bool:
        """Return whether it is one number for both."""
        if atom is self.b.counted:
            return False
        if atom not in self._same:
            inside = atoms_of([], atom.polys) if atom.defined else ()
            self._same[atom] = (
                all(map(self.same, inside)) if atom.defined else atom not in self.chosen and self.b.shared(atom)
            )
        return self._same[atom]

    def name(self, atom: Atom) -> str:
        if atom is self.b.counted:
            self.sets.learn([atom])
            return f"({given(atom)} - {self.b.back})"
        if self.same(atom):
            self.sets.learn([atom])
            return given(atom)
        if atom in self.chosen or atom.defined:
            return self.choose(atom)
        text = f"d{self.number}_{atom.number}"
        self.sets.universe[text] = (atom.low, atom.high)
        return text

    def choose(self, atom: Atom) -> str:
        text = f"x{atom.number}"
        self.bound[text] = atom
        return text

    def text(self) -> str:
        sets, b, w, read = self.sets, self.b, self.b.write, self.sets.read
        guards = [one for one in w.path if one not in sets.c.found.defines]
        put = self._by_element()
        said = [sets.cond(put.cond(one), self.name) for one in guards]
        said += [f"{self.name(atom)} = 0" for atom in b.at_first()]
        if b.earlier:
            for atom in w.when.loops[b.same].trip.atoms:
                sets.learn([atom])
                said.append(f"0 <= {self.name(atom)} < {given(atom)}")
        if w.rank is not None and read.rank is not None:
            said.append(self.equal(w.rank, read.rank))
        said += self._reaches(w, read, put)
        todo = list(self.bound.values())
        for atom in todo:  # grows as definitions name more
            if atom.defined:
                said += [sets.cond(one, self.name) for one in _defining(sets.c, atom)]
                todo += [new for new in self.bound.values() if new not in todo]
            else:
                said.append(f"{atom.low} <= x{atom.number} <= {atom.high}")
        said = list(dict.fromkeys(said))
        inner = " and ".join(said) or "0 = 0"
        return f"exists ({', '.join(self.bound)} : {inner})" if self.bound else inner

    def equal(self, mine: Poly, its: Poly) -> str:
        self.sets.learn(atoms_of([], [its]))
        return f"{self.sets.poly(mine, self.name)} = {self.sets.poly(its, given)}"

    def _never_sure(self, i: Poly) -> bool:
        """Return whether an index is one that no one can count on: a number that may be anything stands in it, and
        nothing that can be chosen.  Then for every element there is a value of that number, which stands in no other
        write, for which this write goes elsewhere: without it, as much is covered for certain.
        """
        atoms = i.atoms
        if any(atom.defined or self.same(atom) is False and atom in self.chosen for atom in atoms):
            return False
        free = [atom for atom in atoms if not self.same(atom)]
        return _linear(i) and any(atom.low < atom.high for atom in free)

    def _by_element(self) -> Replaced:
        """The write's index is the element that is read: so a quotient that stands in it by itself, whoever writes, is
        the element less the rest of the index.  Where it is multiplied, that is put in its place: the element is given,
        and what is left may drop out.  The equation of that index stays as it is: it is what makes this so.
        """
        sets, w = self.sets, self.b.write
        instead: dict[Atom, Poly] = {}
        for i, n, e in zip(w.index, w.sizes, sets.element) if w.like(sets.read) and _multiplies(w) else ():
            alone = [m[0] for m, k in i.terms.items() if k == 1 and len(m) == 1 and m[0].kind is kinds.FLOOR]
            free = [atom for atom in alone if not self.same(atom) and atom not in instead]
            if n == 1 and free and _linear(i):
                at = sets.c.terms.base(kinds.ELEMENT, *e.span(), GRID1, key=("at", e))
                sets.say([equal(at, e)])
                instead[free[0]] = Poly({(free[0],): 1}) - i + at
                self.plain.add(i)
        return Replaced(sets.c.terms, instead)

    def _reaches(self, w: Touch, read: Touch, put: Replaced) -> list[str]:
        """The element that is read is among those that are written."""
        sets = self.sets
        if w.like(read):
            found = []
            known = [(i, e) for i, n, e in zip(w.index, w.sizes, sets.element) if n == 1]
            exclusive = Exclusive(sets.c.terms, known, self.same)
            for k, (i, n, e) in enumerate(zip(w.index, w.sizes, sets.element)):
                if n == 1 and self._never_sure(i):
                    raise Beyond
                solved = exclusive.solved(i, e) or exclusive.solved(i, self._within(k, e)) if n == 1 else None
                if solved is not None:
                    found.append(self.equal(*solved))
                    continue
                first, at = sets.poly(i if i in self.plain else put.poly(i), self.name), sets.poly(e, given)
                found.append(f"{first} = {at}" if n == 1 else f"{first} <= {at} and {at} <= {first} + {n - 1}")
            return found
        # In bytes, as many at once as divide both.
        c, offsets = sets.c, []
        for k, n in enumerate(w.sizes):
            one = c.terms.base(kinds.OFFSET, 0, n - 1, THREAD1, key=("written", w.number, self.number, k))
            self.chosen |= one.atoms
            offsets.append(one)
        (skip, many), (from_, wanted) = w.part, read.part
        step = math.gcd(w.bytes, read.bytes, skip, many, from_, wanted)
        granule = c.terms.base(kinds.GRANULE, 0, wanted // step - 1, THREAD1, key=("granule", read.number, step))
        start = flat(tuple(i + o for i, o in zip(w.index, offsets)), w.shape) * w.bytes + skip
        wanted_at = flat(sets.element, read.shape) * read.bytes + from_ + granule * step
        sets.learn(atoms_of([], [wanted_at]))
        mine, its = sets.poly(start, self.name), sets.poly(wanted_at, given)
        return [f"{mine} <= {its}", f"{its} + {step} <= {mine} + {many}"]

    def _within(self, k: int, e: Poly) -> Poly:
        """The index that is read, by a name that says that it lies in the array."""
        sets, shape = self.sets, self.sets.read.shape
        size = None if shape is None else shape[k].value
        if size is None:
            return e
        at = sets.c.terms.base(kinds.ELEMENT, 0, size - 1, GRID1, key=("in", e, size))
        sets.say([equal(at, e)])
        return at


# ---- elements -------------------------------------------------------------------------------------------------------


def _element(c: ProofContext, t: Touch) -> tuple[Poly, ...]:
    """Any element that is read."""
    return tuple(
        i if n == 1 else i + c.terms.base(kinds.ELEMENT, 0, n - 1, THREAD1, key=("read", t.number, k))
        for k, (i, n) in enumerate(zip(t.index, t.sizes))
    )


def _defining(c: ProofContext, atom: Atom) -> list[Cond]:
    """Return what a defined atom is, exactly: bits, and quotients by what may be zero, are not said in linear terms."""
    if atom.kind in (kinds.AND, kinds.MOD) or atom.kind is kinds.DIV and atom.parts[1].value is None:
        raise Beyond
    return defining(c.terms, atom)


# ---- exclusive ors --------------------------------------------------------------------------------------------------


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
            given = self._given(y) or self._of_higher(y, x, e)
            common = None if given is None else bitand(self.terms, e, given)
            if given is not None and common is not None:
                return x, e + given - common * 2
        return None

    def _given(self, y: Poly) -> Poly | None:
        """In numbers of the read."""
        told = {atom: Poly({(atom,): 1}) if self.same(atom) else self._of_element(atom) for atom in y.atoms}
        known = {atom: p for atom, p in told.items() if p is not None}
        return None if None in told.values() else of_products(y, lambda mono: map(known.__getitem__, mono))

    def _of_higher(self, y: Poly, x: Poly, e: Poly) -> Poly | None:
        """In numbers of the read, where x ^ y is e and y is made of bits of x above its own, which are e's: the swizzle
        of a flat array, `x ^ x / 32 % 8 * 4`.
        """
        terms, low, most = self.terms, *self.terms.span(y)
        found, left, own = ZERO, y, most.bit_length()
        quotients = [terms.floor(x, 1 << k) for k in range(own, max(own, terms.span(x)[1].bit_length()))]
        for k, (q, further) in enumerate(zip(quotients, [*quotients[1:], ZERO])):
            alone = [mono for mono in q.terms if mono and mono not in further.terms]
            if alone:
                factor = left.terms.get(alone[0], 0) // q.terms[alone[0]]
                left, found = left - q * factor, found + terms.floor(e, 1 << own + k) * factor
        if left.value is None or low < 0:
            return None
        found += left.value
        return found if terms.span(found)[0] >= 0 and terms.span(found)[1] < 1 << own else None

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
