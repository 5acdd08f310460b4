"""What integers are at run time, as linear forms over thread positions, parameters and loop variables.

Input: integer expressions and conditions of the typed IR.  Output: forms (analysis/linear.py), and facts `form >= 0`.  Invariant: a form equals the
expression for every thread; what cannot be said linearly is an unknown of its own.  An unknown is `(kind, ...)`:

  ("thread",) ("block",) ("cluster",)   the hardware's index of the thread in its block (for a device function on its own: in its group), of the
  block, of the cluster ("var", frame, uid, where)            a variable whose value has no form; `where` tells assignments apart ("loop", frame,
  uid)                  a loop variable in the current iteration ("div", x, n) ("mul", x, y)           quotients and products of forms ("any",
  where)                        a value nothing is known of ("old", loop, atom)                   what `atom` was in an earlier iteration of that
  loop
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap.analysis import linear
from snap.analysis.linear import Atom, Form
from snap.ir import nodes as ir
from snap.ir.types import THREAD1, Kind, Level, Place, Privilege, Scalar

Frame = tuple[int, ...]  # the calls we are in
Fact = Form  # >= 0
# How large an unknown may be where a multiple of it is not suspected to wrap.  Blocks are many, but what they index is memory.
REACH = {"thread": 1024, "block": 1, "cluster": 1, "count": 1}
LIKELY = 4096


@dataclass(slots=True)
class Position:
    """Where the current group's units are: the relative index at each level."""

    index: dict[Level, Form]
    place: Place

    def entered(self, level: Level, index: Form, place: Place) -> Position:
        return Position({**self.index, level: index}, place)


@dataclass(slots=True)
class Values:
    """The forms of the variables in scope, and what is known of each unknown.

    born    the loops (ids, outermost first) in whose bodies an unknown gets a new value each iteration
    steps   loop variables that grow by so much each iteration of their loop (id, step), or by at least so much: `growing`
    starts  what they are in the first iteration
    counts  unknowns that are never negative
    """

    known: dict[tuple[Frame, int], Form] = field(default_factory=dict)
    privileges: dict[Atom, Privilege] = field(default_factory=dict)
    born: dict[Atom, tuple[int, ...]] = field(default_factory=dict)
    steps: dict[Atom, tuple[int, int]] = field(default_factory=dict)
    starts: dict[Atom, Form] = field(default_factory=dict)
    growing: set[Atom] = field(default_factory=set)
    counts: set[Atom] = field(default_factory=set)
    loops: list[int] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    systems: linear.Systems = field(default_factory=linear.Systems)

    def fresh(self, frame: Frame, var: ir.Var, where: object) -> Form:
        atom = ("var", frame, var.uid, where)
        if var.type.kind is Kind.UINT:
            self.counts.add(atom)
        return self.unknown(atom, var.privilege)

    def loop_variable(self, frame: Frame, var: ir.Var, start: Form, step: Form) -> Form:
        atom = ("loop", frame, var.uid)
        least = least_step(step)
        if least > 0:
            if self.not_negative(start):
                self.counts.add(atom)
            self.steps[atom] = (self.loops[-1], least)
            self.starts[atom] = start
            if not linear.is_number(step):
                self.growing.add(atom)
        return self.unknown(atom, var.privilege)

    def turns(self, loop: int, privilege: Privilege) -> Form:
        """How many iterations of the loop came before this one."""
        atom = ("loop", (), ("turns", loop))
        self.steps[atom] = (loop, 1)
        self.starts[atom] = linear.ZERO
        self.counts.add(atom)
        return self.unknown(atom, privilege)

    def not_negative(self, x: Form) -> bool:
        """A sum of what counts from zero and of remainders, y - n * (y / n); or a consequence of what is known here."""
        if x[0] >= 0 and all(k > 0 and self._counts(atom) for atom, k in x[1]):
            return True
        for atom, k in x[1]:
            if atom[0] == "div" and k < 0 and k % atom[2] == 0:
                remainder = linear.subtract(atom[1], linear.times(linear.unknown(atom), atom[2]))
                if self.not_negative(linear.add(x, remainder, k // atom[2])):
                    return True
        return bool(self.facts) and not self.systems.feasible([], [*self.facts, linear.subtract(linear.number(-1), x)])

    def _counts(self, atom: Atom) -> bool:
        if atom[0] == "mul":
            return self.not_negative(atom[1]) and self.not_negative(atom[2])
        return atom[0] in ("thread", "block", "cluster", "count") or atom in self.counts or atom[0] == "div" and self.not_negative(atom[1])

    def anything(self, where: object) -> Form:
        return self.unknown(("any", where), THREAD1)

    def unknown(self, atom: Atom, privilege: Privilege) -> Form:
        self.privileges[atom] = privilege
        self.born.setdefault(atom, tuple(self.loops))
        return linear.unknown(atom)

    def aged(self, loop: int):
        """The renaming of unknowns when an iteration of `loop` ends: what it gave new values to is what it was in an earlier iteration."""

        def change(atom: Atom) -> Atom | None:
            if atom[0] in ("div", "mul"):
                return None
            plain = atom[2] if atom[0] == "old" else atom
            born = self.born.get(plain, ())
            if loop not in born or atom[0] == "old" and atom[1] in born[: born.index(loop)]:
                return atom
            return ("old", loop, plain)

        return change


def least_step(step: Form) -> int:
    """How much it is at least, where it is a number, or numbers of units; else 0."""
    return step[0] + sum(k for _, k in step[1]) if all(k > 0 and atom[0] == "count" for atom, k in step[1]) else 0


def is_integer(type: object) -> bool:
    return isinstance(type, Scalar) and type.kind in (Kind.INT, Kind.UINT, Kind.BOOL)


def form(e: ir.Expr, values: Values, frame: Frame, at: Position) -> Form:
    """The value of an integer expression.  That a sum of unknown values wraps is left aside: an index that does is out of bounds."""
    match e:
        case ir.Const(value):
            return linear.number(int(value)) if isinstance(value, (int, bool)) else values.anything(id(e))
        case ir.Read(var):
            if not is_integer(var.type):
                return values.anything((frame, id(e)))
            found = values.known.get((frame, var.uid))
            return found if found is not None else values.fresh(frame, var, "start")
        case ir.UnitId(target, place):
            return unit_index(target, place, at)
        case ir.UnitCount(target):
            return linear.unknown(("count", str(target), str(e.place)))
        case ir.Cast(value) if is_integer(value.type) and is_integer(e.type) and e.type.bits >= 32:
            return _held(form(value, values, frame, at), e.type, values, (frame, id(e)))
        case ir.Unary("-", value):
            return _held(linear.times(form(value, values, frame, at), -1), e.type, values, (frame, id(e)))
        case ir.Binary(op, left, right) if is_integer(e.type):
            a, b = form(left, values, frame, at), form(right, values, frame, at)
            return _held(_binary(op, a, b, values, (frame, id(e))), e.type, values, (frame, id(e)))
        case _:
            return values.anything((frame, id(e)))


def _held(x: Form, type: Scalar, values: Values, where: object) -> Form:
    """x where its type holds it, as far as indices go: what wraps is something else, and may be a good index again once it is shifted or cast."""
    reach = abs(x[0]) + sum(abs(k) * REACH.get(atom[0], LIKELY) for atom, k in x[1])
    return values.anything(where) if reach >> (type.bits - 1) or type.kind is Kind.UINT and not values.not_negative(x) else x


def _binary(op: str, a: Form, b: Form, values: Values, where: object) -> Form:
    match op:
        case "+":
            return linear.add(a, b)
        case "-":
            return linear.subtract(a, b)
        case "*":
            if linear.is_number(a):
                return linear.times(b, a[0])
            if linear.is_number(b):
                return linear.times(a, b[0])
            low, high = sorted((a, b), key=repr)
            return linear.unknown(("mul", low, high))
        case "/" | ">>" | "%" | "&" if linear.is_number(b):
            n = (
                1 << b[0]
                if op == ">>" and 0 <= b[0] < 31
                else b[0] + 1
                if op == "&" and b[0] >= 0 and (b[0] + 1) & b[0] == 0
                else b[0]
                if op in "/%"
                else 0
            )
            if n >= 1 and (op in (">>", "&") or values.not_negative(a)):
                return linear.quotient(a, n) if op in ("/", ">>") else linear.remainder(a, n)
        case "<<" if linear.is_number(b) and 0 <= b[0] < 31:
            return linear.times(a, 1 << b[0])
    return values.anything(where)


def unit_index(target: Privilege, place: Place, at: Position) -> Form:
    """As the head of ir/nodes.py defines it."""
    levels = [(level, held) for level, held in place.levels if level >= target.level]
    result = linear.ZERO
    for i, (level, held) in enumerate(levels):
        if i and not linear.is_number(result):
            if held.count is None:
                return linear.unknown(("any", ("count", str(target), str(place))))
            result = linear.times(result, held.count)
        if level is not Level.GRID:
            result = linear.add(result, at.index[level])
    return linear.quotient(result, target.n)


def facts(cond: ir.Expr, truth: bool, values: Values, frame: Frame, at: Position) -> list[Fact]:
    """What follows from a condition being true (or false)."""
    match cond:
        case ir.Unary("not", value):
            return facts(value, not truth, values, frame, at)
        case ir.Logical(op, left, right) if (op == "and") == truth:
            return [*facts(left, truth, values, frame, at), *facts(right, truth, values, frame, at)]
        case ir.Compare(op, left, right) if is_integer(left.type):
            a, b = form(left, values, frame, at), form(right, values, frame, at)
            if not truth:
                op = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}[op]
            one = linear.number(1)
            match op:
                case "<":
                    return [linear.subtract(linear.subtract(b, a), one)]
                case "<=":
                    return [linear.subtract(b, a)]
                case ">":
                    return [linear.subtract(linear.subtract(a, b), one)]
                case ">=":
                    return [linear.subtract(a, b)]
                case "==":
                    return [linear.subtract(a, b), linear.subtract(b, a)]
    return []
