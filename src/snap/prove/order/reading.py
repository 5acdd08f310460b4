"""Read integers exactly where the walk is: by no stage's rules but those of the language.

Input: integer expressions and conditions of the IR.  Output: forms (`analysis/linear/forms.py`: sums of unknowns, plain
arithmetic), and facts, forms that are not negative.  Invariant: a form is what the expression computes, if signed
arithmetic stays in its type (*overflow*, `order/report.py` says so); what has no form is an unknown of its type.
Neither the forms that inference computes (`analysis/linear/values.py`) nor those of the walk over the typed program
(`walk/values.py`) are asked, so that a mistake there cannot hide a missing barrier from *order* as well.  Nor is the
compiler's own solver, by which inference decides: NO is the answer of isl or z3.  Non-goals: which statement assigns
what.

The unknowns are tuples, which begin with what they are:

    (THREAD,) (BLOCK,) (CLUSTER,)   the index of the thread in its block, of the block, of the cluster
    (COUNT, units, place)           how many units a place has, where only the launch tells
    (VAR, frame, n, where)          the n-th variable that was met, as it was assigned at `where`
    (LOOP, frame, n)                a loop variable in the current iteration, where its step is no number
    (TRIP, loop)                    how many iterations of the loop came before this one
    (ANY, where)                    a value that is read from memory, or has no form
    (OLD, side, atom)               what `atom` was in an earlier iteration
    (SIDE, side, atom)              what `atom` is for one of two threads that are compared (`order/sites.py`)
"""

from __future__ import annotations

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.solvers.oracles import isl_solve, z3_solve
from snap._compiler.analysis.solvers.solve import NO, UNKNOWN
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import GRID_BLOCKS
from snap._compiler.ir.integers import Range, held_by
from snap._compiler.ir.types import I32, THREAD1, Level, Place, Privilege, Scalar, ScalarKind
from snap.diag.span import Span
from snap.record import record

CallFrame = tuple[int, ...]  # the calls we are in
VariableName = tuple[CallFrame, object]  # a variable of the program, by number, or a counter of ours, by name
WIDEST: Range = (-(1 << 63), (1 << 64) - 1)  # of any type
MOST_BITS = 12  # of operands of an exclusive or that are asked about


def is_integer(type: object) -> bool:
    """Return whether values of a type are integers; a truth value is one, too."""
    return isinstance(type, Scalar) and not type.is_float


@record
class Indices:
    """The index of the current group's unit at each level, as the head of `ir/nodes.py` defines it."""

    index: dict[Level, Form]
    place: Place

    def entered(self, level: Level, index: Form, place: Place) -> Indices:
        return Indices({**self.index, level: index}, place)

    def group(self, p: Privilege, outer: Place, place: Place) -> Indices:
        """Enter a group, whose units are counted in it."""
        index, shape = self.index.get(p.level, forms.ZERO), outer.inner(p)
        if shape is not None:
            index = shape.member(index, forms.FORMS, outer.there_are(p.level))
        return self.entered(p.level, index, place)

    def case(self, s: ir.Split, case: ir.Case) -> tuple[Indices, list[Form]]:
        """Enter a case of a split; return what is known of the units that are there, too."""
        index = forms.subtract(self.index[s.level], forms.number(case.offset))
        if case.rest:
            return self.entered(s.level, forms.remainder(index, case.size), case.place), [index]
        last = forms.subtract(forms.number(case.size - 1), index)
        return self.entered(s.level, index, case.place), [index, last]

    def unit(self, target: Privilege, place: Place) -> Form | None:
        """Return the index of a unit; None where a level has an unknown number of them."""
        found = forms.ZERO
        for k, (level, held) in enumerate((level, held) for level, held in place.levels if level >= target.level):
            if k and found != forms.ZERO:
                if held.count is None:
                    return None
                found = forms.times(found, held.count)
            if level is not Level.GRID:
                found = forms.add(found, self.index[level])
        return place.shape(target).number(found, forms.FORMS, place.units(target.level))


class TooMuch(Exception):
    """The kernel cannot be followed: why."""

    def __init__(self, why: str, span: Span | None = None):
        super().__init__(why)
        self.why, self.span = why, span


class Known:
    """
    known       what variables and counters of ours are; facts: what is not negative here
    loops       the loops around; context: which iterations of those that are walked one by one we are in
    types       of variables, and of unknowns; privileges: of unknowns, the groups that all have one value for
    born        of unknowns: the loops in whose bodies they get a new value each iteration
    counts      unknowns that are never negative; spans: of forms that are known to lie in a range
    implied     of unknowns, facts that follow from what they are
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.known: dict[VariableName, Form] = {}
        self.facts: list[Form] = []
        self.loops: list[object] = []
        self.context: tuple = ()
        self.types: dict[object, object] = {}
        self.privileges: dict[LinearAtom, Privilege] = {}
        self.born: dict[LinearAtom, tuple] = {}
        self.counts: set[LinearAtom] = set()
        self.spans: dict[Form, Range] = {}
        self.implied: dict[LinearAtom, tuple[Form, ...]] = {}
        self.solvers = Solvers()
        self._parts: dict[int, tuple[int, object]] = {}  # expressions by identity, kept, each with a number
        self._variables: dict[object, int] = {}

    # ---- unknowns ----

    def unknown(self, atom: LinearAtom, privilege: Privilege, type: object = None) -> Form:
        self.privileges[atom] = privilege
        self.born.setdefault(atom, tuple(self.loops))
        if type is not None:
            self.types[atom] = type
        return forms.unknown(atom)

    def variable(self, name: VariableName, where: object, privilege: Privilege) -> Form:
        """Return what a variable is from this place on, where that has no form."""
        atom = (forms.VAR, name[0], self._nth(name[1]), where)
        return self.unknown(atom, privilege, self.types.get(name))

    def _nth(self, uid: object) -> int:
        """Number variables as they are met: so names of unknowns, and answers of solvers, are the same in every run."""
        return self._variables.setdefault(uid, len(self._variables))

    def anything(self, e: ir.Expr, frame: CallFrame) -> Form:
        nth, _ = self._parts.setdefault(id(e), (len(self._parts), e))
        return self.unknown((forms.ANY, (frame, nth, self.context)), THREAD1, e.type)

    def iteration(self, loop: object, privilege: Privilege) -> Form:
        """Return how many iterations of the loop came before this one."""
        self.counts.add((forms.TRIP, loop))
        return self.unknown((forms.TRIP, loop), privilege)

    def loop_variable(self, frame: CallFrame, var: ir.Var, start: Form, step: Form) -> Form:
        if forms.is_number(step) and step[0]:
            counted = forms.add(start, self.iteration(self.loops[-1], var.privilege), step[0])
            self.spans[counted] = held_by(var.type)
            return counted
        atom = (forms.LOOP, frame, self._nth(var.uid))
        upwards = step[0] >= 0 and all(k > 0 and part[0] == forms.COUNT for part, k in step[1])
        if upwards and self.not_negative(start):
            self.counts.add(atom)
        return self.unknown(atom, var.privilege, var.type)

    # ---- ranges ----

    def range_of(self, atom: LinearAtom) -> Range:
        """Return the least and the most that an unknown can be."""
        match atom:
            case (forms.THREAD,):
                return 0, self.threads - 1
            case (forms.BLOCK | forms.CLUSTER | forms.COUNT, *_):
                return 0, GRID_BLOCKS
            case (forms.SIDE | forms.OLD, _, inner):
                return self.range_of(inner)
            case (forms.DIV, x, n):
                low, high = self.span(x)
                return low // n, high // n
            case (forms.MUL, x, y):
                ends = [a * b for a in self.span(x) for b in self.span(y)]
                return min(ends), max(ends)
            case (forms.XOR, x, y, bits):
                (a, b), (c, d) = self.span(x), self.span(y)
                bits = bits if bits >= 0 else max(abs(end).bit_length() for end in (a, b, c, d))
                return 0 if min(a, c) >= 0 else -(1 << bits), (1 << bits) - 1
        type = self.types.get(atom)
        low, high = held_by(type) if isinstance(type, Scalar) and is_integer(type) else WIDEST
        return (max(low, 0), high) if atom in self.counts else (low, high)

    def span(self, x: Form) -> Range:
        """Return the least and the most that a form can be, by its unknowns alone."""
        low = high = x[0]
        for atom, k in x[1]:
            ends = [k * end for end in self.range_of(atom)]
            low, high = low + min(ends), high + max(ends)
        known = self.spans.get(x)
        return (low, high) if known is None else (max(low, known[0]), min(high, known[1]))

    def not_negative(self, x: Form) -> bool:
        """Return whether a form is never negative, by its unknowns or by what is known here."""
        if self.span(x)[0] >= 0:
            return True
        for atom, k in x[1]:  # y - n * (y / n) is a remainder
            if atom[0] == forms.DIV and k < 0 and k % atom[2] == 0:
                rest = forms.subtract(atom[1], forms.times(forms.unknown(atom), atom[2]))
                if self.not_negative(forms.add(x, rest, k // atom[2])):
                    return True
        return bool(self.facts) and self._never(forms.subtract(forms.number(-1), x))

    def _never(self, x: Form) -> bool:
        """Return whether isl shows that a form is always negative here."""
        said = [*self.facts, x]
        natural = [forms.unknown(a) for a in forms.atoms(said) if a[0] == forms.THREAD or a in self.counts]
        last = forms.number(self.threads - 1)
        said += [forms.subtract(last, t) for t in natural if t == forms.unknown((forms.THREAD,))]
        return not self.solvers.feasible([], [*said, *natural])

    def remainder(self, x: Form, n: int) -> Form:
        found = forms.remainder(x, n)
        self.spans.setdefault(found, (0, n - 1))
        return found

    def bits(self, x: Form) -> int:
        """Return how many bits a form has; -1 where it is not known to be a number from zero on that has few."""
        if not self.not_negative(x):
            return -1
        most = self.span(x)[1].bit_length()
        for n in range(min(most, MOST_BITS + 1)):
            if self._never(forms.subtract(x, forms.number(1 << n))):
                return n
        return most if most <= MOST_BITS else -1

    def wrapped(self, x: Form, type: Scalar) -> Form:
        """Return the number of that type that is x up to a multiple of 2 ** bits."""
        low, high = held_by(type)
        least, most = self.span(x)
        fits = least >= low or self.not_negative(forms.subtract(x, forms.number(low)))
        if fits and (most <= high or self.not_negative(forms.subtract(forms.number(high), x))):
            return x
        return forms.add(forms.remainder(forms.subtract(x, forms.number(low)), 1 << type.bits), forms.number(low))

    # ---- expressions ----

    def form(self, e: ir.Expr, frame: CallFrame, at: Indices) -> Form:
        """Return what an expression computes."""
        found = self._formed(e, frame, at)
        return self.anything(e, frame) if found is None else found

    def _formed(self, e: ir.Expr, frame: CallFrame, at: Indices) -> Form | None:
        match e:
            case ir.Const(int(value)):
                return forms.number(int(value))
            case ir.Read(var) if is_integer(var.type):
                found = self.known.get((frame, var.uid))
                self.types[frame, var.uid] = var.type
                return self.variable((frame, var.uid), "start", var.privilege) if found is None else found
            case ir.UnitId(target, place):
                return at.unit(target, place)
            case ir.UnitCount(target, place):
                return forms.unknown((forms.COUNT, str(target), str(place)))
            case ir.Lane(among):
                return self.remainder(forms.unknown((forms.THREAD,)), among)
            case ir.Cast(inner) if is_integer(inner.type) and _computes(e.type):
                return self.wrapped(self.form(inner, frame, at), e.type)  # type: ignore[arg-type]
            case ir.Unary("-", inner) if _computes(e.type):
                return self._held(forms.times(self.form(inner, frame, at), -1), e.type)  # type: ignore[arg-type]
            case ir.Binary(op, left, right) if _computes(e.type):
                return self._binary(op, self.form(left, frame, at), self.form(right, frame, at), e.type)  # type: ignore[arg-type]
            case ir.Math("min", (x, y)) if is_integer(e.type):
                found = self.anything(e, frame)
                less = (forms.subtract(self.form(side, frame, at), found) for side in (x, y))
                self.implied[found[1][0][0]] = tuple(less)
                return found
        return None

    def _held(self, x: Form, type: Scalar) -> Form:
        """Return the result of arithmetic: unsigned and narrow integers wrap, and that others do not is *overflow*."""
        return self.wrapped(x, type) if type.kind is ScalarKind.UINT or type.bits < I32.bits else x

    def _binary(self, op: str, a: Form, b: Form, type: Scalar) -> Form | None:
        n = b[0] if forms.is_number(b) else None
        match op:
            case "+":
                return self._held(forms.add(a, b), type)
            case "-":
                return self._held(forms.subtract(a, b), type)
            case "*":
                return self._held(_product(a, b), type)
            case "^":
                bits = self.bits(a), self.bits(b)
                return forms.exclusive(a, b, -1 if -1 in bits else max(bits))
            case "<<" if n is not None and 0 <= n < type.bits:
                return self.wrapped(forms.times(a, 1 << n), type)
            case ">>" if n is not None and 0 <= n < type.bits:
                return forms.quotient(a, 1 << n)
            case "&" if n is not None and n >= 0 and n & n + 1 == 0:
                return self.remainder(a, n + 1)
            case "//" | "mod" if n is not None and n >= 1:
                return forms.quotient(a, n) if op == "//" else self.remainder(a, n)
            case "/" | "%" if n is not None and n >= 1 and self.not_negative(a):  # else rounded toward zero
                return forms.quotient(a, n) if op == "/" else self.remainder(a, n)
        return None

    def follows(self, cond: ir.Expr, truth: bool, frame: CallFrame, at: Indices) -> list[Form]:
        """Return what follows from a condition being true, or false."""
        match cond:
            case ir.Unary("not", inner):
                return self.follows(inner, not truth, frame, at)
            case ir.Logical(op, left, right) if (op == "and") is truth:
                return [*self.follows(left, truth, frame, at), *self.follows(right, truth, frame, at)]
            case ir.Compare(op, left, right) if is_integer(left.type):
                more = forms.subtract(self.form(left, frame, at), self.form(right, frame, at))
                return compared(op if truth else NEGATED[op], more)
        return []


NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def compared(op: str, more: Form) -> list[Form]:
    """Return what is not negative where a difference compares with zero in this way."""
    less, one = forms.times(more, -1), forms.number(1)
    found = {">=": [more], "<=": [less], "==": [more, less], "!=": []}
    return found[op] if op in found else [forms.subtract(more if op == ">" else less, one)]


def _product(a: Form, b: Form) -> Form:
    if forms.is_number(a) or forms.is_number(b):
        return forms.times(b, a[0]) if forms.is_number(a) else forms.times(a, b[0])
    return forms.unknown((forms.MUL, *sorted((a, b), key=forms.placed)))


def _computes(type: object) -> bool:
    """Return whether integers of a type are computed with: no truth value, and no vector of them."""
    return isinstance(type, Scalar) and type.is_integer


# ---- isl and z3 -----------------------------------------------------------------------------------------------------


class Solvers:
    """asked: how many questions; answers: by question, whatever its unknowns are called."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: dict[tuple, object] = {}

    def feasible(self, zero: list[Form], positive: list[Form]) -> bool:
        return self.solved(zero, positive) is not NO

    def solved(self, zero: list[Form], positive: list[Form]) -> object:
        positive = list(dict.fromkeys(f for f in positive if f[1] or f[0] < 0))
        zero = list(dict.fromkeys(f for f in zero if f[1] or f[0]))
        if any(not f[1] and f[0] < 0 for f in positive) or any(not f[1] and f[0] for f in zero):
            return NO
        key = _canonical(zero, positive)
        if key not in self.answers:
            self.asked += 1
            self.answers[key] = _ask(zero, positive)
        return self.answers[key]


def _ask(zero: list[Form], positive: list[Form]) -> object:
    found = isl_solve(zero, positive)
    if found is UNKNOWN and any(a[0] == forms.MUL for a in forms.atoms([*zero, *positive])):
        found = z3_solve(zero, positive)
    return found


def _canonical(zero: list[Form], positive: list[Form]) -> tuple:
    names: dict[LinearAtom, LinearAtom] = {}

    def change(atom: LinearAtom) -> LinearAtom | None:
        return None if atom[0] in forms.COMPOUND else names.setdefault(atom, ("n", len(names)))

    return tuple(forms.rename(f, change) for f in zero), tuple(forms.rename(f, change) for f in positive)
