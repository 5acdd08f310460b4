"""Evaluate integers as linear forms over thread positions, parameters and loop variables.

Input: integer expressions and conditions of the typed IR.  Output: forms (analysis/linear/forms.py), and facts `form >=
0`. Invariant: a form equals the expression for every thread, if what `Values.assumed` lists holds; what cannot be said
linearly is an unknown of its own.  Non-goals: which statement assigns what (the stages walk), and floats.  An unknown
is `(kind, ...)`; those made of forms are in analysis/linear/forms.py, and the others are:

    (THREAD,)                  the hardware's index of the thread in its block (for a device function on its own: in its
                               group)
    (BLOCK,) (CLUSTER,)        the same of the block (in its cluster, where there are clusters), of the cluster
    (COUNT, units, place)      how many units a place has, where only the launch tells
    (VAR, frame, n, where)     the n-th variable that was met, whose value has no form; `where` tells assignments apart
    (LOOP, frame, n)           a loop variable in the current iteration, where its step is no number
    (TRIP, loop)               how many iterations of the loop came before this one
    (ANY, where)               a value of its own: read from memory, or beyond linear arithmetic
    (OLD, loop, atom)          what `atom` was in an earlier iteration of that loop
    (SIDE, 1 or 2, atom)       what `atom` is for one of two threads that are compared (analysis/linear/overlap.py)

Assumptions.  Signed arithmetic that leaves its type has no meaning in CUDA, but a proof must show that it does not.
The inference takes a sum whose factors are small (`REACH`, `LIKELY`) for one that stays in its type.  Each time that is
noted in `Values.assumed`.  Where a launch breaks an assumption, the program has no meaning, so that no barrier is
missing in one that has: the error is on the safe side.  With `Values(proofs=True)` nothing is assumed, and every answer
is proved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from snap._compiler.analysis.evaluate import LINEAR, IntegerDomain, NodeRules, is_integer
from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.solvers.solve import Systems
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import BLOCK_THREADS, GRID_BLOCKS
from snap._compiler.ir.integers import Range, held_by
from snap._compiler.ir.types import THREAD1, Level, Place, Privilege, Scalar, ScalarKind, ValueType
from snap._compiler.ir.walk import ways_out
from snap.record import record

Frame = tuple[int, ...]  # the calls we are in

Fact = Form  # >= 0
MOST_UNITS = GRID_BLOCKS  # of whatever is counted
ANY: Range = (-(1 << 63), (1 << 64) - 1)  # of any type
# How large an unknown may be where a multiple of it is not suspected to overflow its signed type.  Blocks are many, but
# what they index is memory.
REACH = {forms.THREAD: BLOCK_THREADS, forms.BLOCK: 1, forms.CLUSTER: 1, forms.COUNT: 1}
LIKELY = 4096


def called(frame: Frame, call: int) -> Frame:
    """The frame of a call that is made in this one."""
    inner = (*frame, call)
    return inner if len(inner) < 8 else _Deep(inner)


class _Deep(tuple):
    """Many calls deep: all that is known is known by frame, so its hash is computed once."""

    hash: int

    def __hash__(self) -> int:
        try:
            return self.hash
        except AttributeError:
            self.hash = tuple.__hash__(self)
            return self.hash


MOST_BITS = 12  # of what is looked at bit by bit


@dataclass(slots=True)
class Position:
    """Locate the units of the current group: the relative index at each level."""

    index: dict[Level, Form]
    place: Place

    def entered(self, level: Level, index: Form, place: Place) -> Position:
        return Position({**self.index, level: index}, place)

    def grouped(self, s: ir.Group) -> Position:
        """In a group, whose units are counted in it."""
        return self._counted(s.privilege, s.outer, s.place)

    def case(self, s: ir.Split, case: ir.Case) -> tuple[Position, list[Fact]]:
        """In a case of a split, and what is known of the units that are there."""
        index = forms.subtract(self.index[s.level], forms.number(case.offset))
        if case.rest:
            return self.entered(s.level, forms.remainder(index, case.size), case.place), [index]
        return self.entered(s.level, index, case.place), [
            index,
            forms.subtract(forms.number(case.size - 1), index),
        ]

    def called(self, s: ir.Call) -> Position:
        """In a function, whose units are those that it requires."""
        place = s.function.place
        if place[place.top].count is None:
            return self.entered(place.top, self.index.get(place.top, forms.ZERO), place)
        return self._counted(place.privilege, s.place, place)

    def _counted(self, p: Privilege, outer: Place, place: Place) -> Position:
        """Among the units of a group; the index is what it was where these are all that there are."""
        index, shape = self.index.get(p.level, forms.ZERO), outer.inner(p)
        if shape is not None:
            index = shape.member(index, forms.FORMS, outer.there_are(p.level))
        return self.entered(p.level, index, place)


@dataclass(slots=True)
class Values:
    """The forms of the variables in scope, and what is known of each unknown.

    born    the loops (ids, outermost first) in whose bodies an unknown gets a new value each iteration
    steps   loop variables that grow by a step each iteration of their loop (id, step), or by at least that:
    `growing`
    starts  what they are in the first iteration
    counts  unknowns that are never negative
    types   of variables, and of unknown values: they are what the type holds
    proofs  whether nothing may be assumed; else
    assumed   what was: forms, and the types that they are taken to stay in
    rules   how expressions are evaluated, by the class of the node
    """

    rules: ClassVar[NodeRules]

    known: dict[tuple[Frame, int], Form] = field(default_factory=dict)
    privileges: dict[LinearAtom, Privilege] = field(default_factory=dict)
    born: dict[LinearAtom, tuple[int, ...]] = field(default_factory=dict)
    steps: dict[LinearAtom, tuple[int, int]] = field(default_factory=dict)
    starts: dict[LinearAtom, Form] = field(default_factory=dict)
    growing: set[LinearAtom] = field(default_factory=set)
    counts: set[LinearAtom] = field(default_factory=set)
    types: dict[tuple, ValueType] = field(default_factory=dict)
    spans: dict[Form, Range] = field(default_factory=dict)  # of loop variables, whose forms are sums
    threads: int | None = None  # of the block
    loops: list[int] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    systems: Systems = field(default_factory=Systems)
    numbers: dict[int, tuple[int, object]] = field(default_factory=dict)  # of parts of the text, and these
    met: dict[int, int] = field(default_factory=dict)  # of variables, by their own numbers
    uids: list[int] = field(default_factory=list)  # of these, what they were
    proofs: bool = False
    assumed: dict[Form, Scalar] = field(default_factory=dict)

    def read(self, frame: Frame, var: ir.Var) -> Form:
        found = self.known.get((frame, var.uid))
        return found if found is not None else self.fresh(frame, var, "start")

    def beyond(self, e: ir.Expr, frame: Frame, at: Position | None, parts: tuple[Form, ...] = ()) -> Form:
        """Return an unknown for an expression that has no form; `parts` are the forms of its operands, where they are
        known.
        """
        return self.anything((frame, self.number(e)), e.type)

    def number(self, part: object) -> int:
        """Number an expression, or an access, in the order in which they are first met: names of unknowns are the same
        in every run, and so is the order in which systems of them are solved.
        """
        return self.numbers.setdefault(id(part), (len(self.numbers), part))[0]  # kept, so that its id stays its own

    def _nth(self, uid: int) -> int:
        """Number a variable in the order in which they are first met, as expressions are: its own number tells how many
        were declared in this process before.
        """
        found = self.met.setdefault(uid, len(self.uids))
        if found == len(self.uids):
            self.uids.append(uid)
        return found

    def unknown_of(self, variable: tuple[Frame, int], where: object) -> LinearAtom:
        """Name what a variable is from this place on."""
        frame, uid = variable
        return forms.VAR, frame, self._nth(uid), where

    def fresh(self, frame: Frame, var: ir.Var, where: object) -> Form:
        self.types[frame, var.uid] = var.type
        return self.unknown(self.unknown_of((frame, var.uid), where), var.privilege)

    def loop_variable(self, frame: Frame, var: ir.Var, start: Form, step: Form) -> Form:
        """Count a variable whose step is a number, `start + step * trip`: so loops over own elements, `range(t, n,
        64)`, are seen to be just that, and what else follows from the number of iterations is seen to go with it.
        """
        loop = self.loops[-1]
        if forms.is_number(step) and step[0]:
            counted = forms.add(start, self.iteration(loop, var.privilege), step[0])
            self.spans[counted] = lies_in(var.type)
            return counted
        self.types[frame, var.uid] = var.type
        atom, least = (forms.LOOP, frame, self._nth(var.uid)), least_step(step)
        if least > 0:
            if self.not_negative(start):
                self.counts.add(atom)
            self.steps[atom] = (loop, least)
            self.starts[atom] = start
            self.growing.add(atom)
        return self.unknown(atom, var.privilege)

    def iteration(self, loop: int, privilege: Privilege) -> Form:
        """Return how many iterations of the loop came before this one."""
        atom = (forms.TRIP, loop)
        self.steps[atom] = (loop, 1)
        self.starts[atom] = forms.ZERO
        self.counts.add(atom)
        return self.unknown(atom, privilege)

    def not_negative(self, x: Form) -> bool:
        """A sum of what counts from zero and of remainders, y - n * (y / n); or a consequence of what is known here."""
        if x[0] >= 0 and all(k > 0 and self._counts(atom) for atom, k in x[1]) or self._span(x)[0] >= 0:
            return True
        for atom, k in x[1]:
            if atom[0] == forms.DIV and k < 0 and k % atom[2] == 0:
                remainder = forms.subtract(atom[1], forms.times(forms.unknown(atom), atom[2]))
                if self.not_negative(forms.add(x, remainder, k // atom[2])):
                    return True
        if not self.facts and not self.proofs:
            return False
        known = [*self.facts, *self._bounds([x, *self.facts])] if self.proofs else self.facts
        return not self.systems.feasible([], [*known, forms.subtract(forms.number(-1), x)])

    def _bounds(self, xs: list[Form]) -> list[Fact]:
        """Return facts that say where the unknowns in them lie."""
        ranges = {atom: self.range_of(atom) for atom in forms.atoms(xs) if atom[0] not in forms.COMPOUND}
        lower = [forms.subtract(forms.unknown(atom), forms.number(low)) for atom, (low, _) in ranges.items()]
        return lower + [forms.subtract(forms.number(high), forms.unknown(atom)) for atom, (_, high) in ranges.items()]

    def bits(self, x: Form) -> int:
        """Return how many bits x has; -1 where it is not known to be a number from zero on that has few."""
        if not self.not_negative(x):
            return -1
        threads = [] if self.threads is None else [forms.number(self.threads - 1)]
        known = [
            *self.facts,
            *(forms.subtract(most, forms.unknown((forms.THREAD,))) for most in threads),
            forms.unknown((forms.THREAD,)),
        ]
        for n in range(MOST_BITS + 1):
            if not self.systems.feasible([], [*known, forms.subtract(x, forms.number(1 << n))]):
                return n
        return -1

    def _counts(self, atom: LinearAtom) -> bool:
        if atom[0] in (forms.MUL, forms.XOR):
            return self.not_negative(atom[1]) and self.not_negative(atom[2])
        return atom in self.counts or atom[0] == forms.DIV and self.not_negative(atom[1]) or self.range_of(atom)[0] >= 0

    def within(self, x: Form, low: int, high: int) -> bool:
        """Tell whether x is certainly in that range: by the types of what it is made of, or by what is known here."""
        if x[0] >= low and not x[1]:
            return x[0] <= high
        least, most = self._span(x)
        if least < low and not self.not_negative(forms.subtract(x, forms.number(low))):
            return False
        return most <= high or self.not_negative(forms.subtract(forms.number(high), x))

    def _span(self, x: Form) -> Range:
        """Return what a sum can be at least and at most."""
        low = high = x[0]
        for atom, k in x[1]:
            ends = [k * end for end in self.range_of(atom)]
            low, high = low + min(ends), high + max(ends)
        known = self.spans.get(x)  # a sum may be larger than any type: `x + 2 ** 63`, on the way to a cast
        return (low, high) if known is None else (max(low, known[0]), min(high, known[1]))

    def range_of(self, atom: LinearAtom) -> Range:
        """Return what an unknown can be at least and at most."""
        match atom:
            case (forms.THREAD,):
                return 0, BLOCK_THREADS - 1
            case (forms.BLOCK,) | (forms.CLUSTER,) | (forms.COUNT, *_):
                return 0, MOST_UNITS
            case (forms.DIV, x, n):
                low, high = self._span(x)
                return low // n, high // n
            case (forms.MUL, x, y):
                ends = [a * b for a in self._span(x) for b in self._span(y)]
                return min(ends), max(ends)
            case (forms.XOR, x, y, bits):
                least, most = zip(self._span(x), self._span(y))
                bits = bits if bits >= 0 else max(abs(end).bit_length() for end in (*least, *most))
                return 0 if min(least) >= 0 else -(1 << bits), (1 << bits) - 1
            case (forms.OLD, _, inner):
                return self.range_of(inner)
            case (forms.TRIP, _):
                return 0, ANY[1]
            case (forms.ANY, _) if atom in self.types:
                return lies_in(self.types[atom])
            case (forms.VAR, frame, n, _) | (forms.LOOP, frame, n) if (frame, self.uids[n]) in self.types:
                return lies_in(self.types[frame, self.uids[n]])
            case _:
                return ANY

    def anything(self, where: object, type: ValueType) -> Form:
        self.types[forms.ANY, where] = type
        return self.unknown((forms.ANY, where), THREAD1)

    def unknown(self, atom: LinearAtom, privilege: Privilege) -> Form:
        self.privileges[atom] = privilege
        self.born.setdefault(atom, tuple(self.loops))
        return forms.unknown(atom)

    def aged(self, loop: int):
        """The renaming of unknowns when an iteration of `loop` ends: what it gave new values to is what it was in an
        earlier iteration.
        """

        def change(atom: LinearAtom) -> LinearAtom | None:
            if atom[0] in forms.COMPOUND:
                return None
            plain = atom[2] if atom[0] == forms.OLD else atom
            born = self.born.get(plain, ())
            if loop not in born or atom[0] == forms.OLD and atom[1] in born[: born.index(loop)]:
                return atom
            return (forms.OLD, loop, plain)

        return change


def lies_in(type: ValueType) -> Range:
    """Return the range of the integers that a value of the type is made of."""
    return held_by(type) if is_integer(type) else ANY


def least_step(step: Form) -> int:
    """Return the least value of a step that is a number, or a sum of numbers of units; else 0."""
    return step[0] + sum(k for _, k in step[1]) if all(k > 0 and atom[0] == forms.COUNT for atom, k in step[1]) else 0


class Linear(IntegerDomain[Form]):
    """Evaluate to forms, at one place of a stage's walk.  Signed arithmetic is taken not to overflow, as far as
    `Values` says.  Without a position, nothing but that it is one is known of a unit's index.
    """

    def __init__(self, values: Values, frame: Frame, at: Position | None):
        self.values, self.frame, self.at, self.rules = values, frame, at, values.rules

    def unknown(self, e: ir.Expr, *parts: Form) -> Form:
        return self.values.beyond(e, self.frame, self.at, parts)

    def number(self, n: int) -> Form:
        return n, ()

    def constant(self, x: Form) -> int | None:
        return None if x[1] else x[0]

    def natural(self, x: Form) -> bool:
        return self.values.not_negative(x)

    add = staticmethod(forms.add)
    floor = staticmethod(forms.quotient)
    modulo = staticmethod(forms.remainder)

    def times(self, x: Form, y: Form) -> Form:
        if not x[1] or not y[1]:
            return forms.times(y, x[0]) if not x[1] else forms.times(x, y[0])
        low, high = sorted((x, y), key=forms.placed)
        return forms.unknown((forms.MUL, low, high))

    def wrapped(self, x: Form, type: Scalar) -> Form:
        return wrapped(x, type, self.values)

    def signed(self, x: Form, type: Scalar, e: ir.Expr) -> Form:
        """Wrap what may be far too large, as it does in practice: a guess on the safe side, since the program has no
        meaning where the two differ.
        """
        if not self.values.proofs:
            reach = abs(x[0]) + sum(abs(k) * REACH.get(atom[0], LIKELY) for atom, k in x[1])
            if not reach >> (type.bits - 1):
                if x[1]:
                    self.values.assumed[x] = type
                return x
        return wrapped(x, type, self.values)

    def bits(self, e: ir.Expr, op: str, x: Form, y: Form, type: Scalar) -> Form:
        if op != "^":
            return self.unknown(e, x, y)
        bits = self.values.bits(x), self.values.bits(y)
        return forms.exclusive(x, y, -1 if -1 in bits else max(bits))


def _read(e: ir.Read, d: Linear) -> Form:
    return d.values.read(d.frame, e.var) if is_integer(e.var.type) else d.unknown(e)


def _unit_id(e: ir.UnitId, d: Linear) -> Form:
    return d.unknown(e) if d.at is None else unit_index(e.target, e.place, d.at)


def _unit_count(e: ir.UnitCount, d: Linear) -> Form:
    return forms.unknown((forms.COUNT, str(e.target), str(e.place)))


RULES: NodeRules = {**LINEAR, ir.Read: _read, ir.UnitId: _unit_id, ir.UnitCount: _unit_count}
Values.rules = RULES


def form(e: ir.Expr, values: Values, frame: Frame, at: Position | None) -> Form:
    return Linear(values, frame, at).of(e)


def wrapped(x: Form, type: Scalar, values: Values) -> Form:
    """The number of that type that is x up to a multiple of 2 ** bits: x itself where the type certainly holds it."""
    low, high = held_by(type)
    if values.within(x, low, high):
        return x
    return forms.add(forms.remainder(forms.subtract(x, forms.number(low)), 1 << type.bits), forms.number(low))


def counted(x: Form, type: Scalar, values: Values) -> Form:
    """Return what a variable is that an unknown number of iterations has counted up to x.  A signed one is taken not to
    leave its type.
    """
    if type.kind is ScalarKind.UINT or values.proofs:
        return wrapped(x, type, values)
    values.assumed[x] = type
    return x


def unit_index(target: Privilege, place: Place, at: Position) -> Form:
    """As the head of ir/nodes.py defines it."""
    levels = [(level, held) for level, held in place.levels if level >= target.level]
    result = forms.ZERO
    for i, (level, held) in enumerate(levels):
        if i and not forms.is_number(result):
            if held.count is None:
                return forms.unknown((forms.ANY, (forms.COUNT, str(target), str(place))))
            result = forms.times(result, held.count)
        if level is not Level.GRID:
            result = forms.add(result, at.index[level])
    return place.shape(target).number(result, forms.FORMS, place.units(target.level))


def facts(cond: ir.Expr, truth: bool, values: Values, frame: Frame, at: Position | None) -> list[Fact]:
    """Return what follows from a condition being true (or false)."""
    match cond:
        case ir.Unary("not", value):
            return facts(value, not truth, values, frame, at)
        case ir.Logical(op, left, right) if (op == "and") == truth:
            return [*facts(left, truth, values, frame, at), *facts(right, truth, values, frame, at)]
        case ir.Compare(op, left, right) if is_integer(left.type):
            a, b = form(left, values, frame, at), form(right, values, frame, at)
            if not truth:
                op = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}[op]
            more, less = forms.subtract(a, b), forms.subtract(b, a)
            strict = {"<": [forms.subtract(less, forms.number(1))], ">": [forms.subtract(more, forms.number(1))]}
            return {**strict, "<=": [less], ">=": [more], "==": [more, less], "!=": []}[op]
    return []


# ---- how often a loop's body runs -----------------------------------------------------------------------------------


@record
class Trips:
    """The body runs `count` times.  Where that is not exact, it runs at most so often, and not at all where `count` is
    negative.
    """

    count: Form
    exact: bool


def trips(s: ir.For, values: Values, frame: Frame, at: Position | None) -> Trips | None:
    """None where the step is no number.  What `values` assumes of the bounds, this does, too."""
    start, stop, step = (form(e, values, frame, at) for e in (s.start, s.stop, s.step))
    if not forms.is_number(step) or not step[0]:
        return None
    way = 1 if step[0] > 0 else -1
    far = forms.times(forms.subtract(stop, start), way)  # what lies between
    count = forms.quotient(forms.add(far, forms.number(abs(step[0]) - 1)), abs(step[0]))
    leaves = any(not isinstance(way_out, ir.Continue) for way_out in ways_out(s.body))
    return Trips(count, values.not_negative(count) and not leaves)
