"""Expressions of the slow interpreter: each becomes a function of a group and some of its lanes that gives one value a lane.

Operands are evaluated from left to right, each for all lanes before the next; `and`, `or`, `if-else` and chains of comparisons evaluate an operand for the
lanes that need it only.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace

from fuzz import slow_values as sv
from fuzz.slow_inferred import ARRAY, NUMBER, VALUE, Seen, constexprs, told
from fuzz.slow_memory import Array, Handle, Own, Reshaped, Rest, View, Window
from fuzz.slow_records import Held, Records
from fuzz.slow_text import (
    BUILTIN,
    Constexpr,
    Function,
    Inlined,
    Lambda,
    Level,
    Pointer,
    Privilege,
    RecordClass,
    Reference,
    Registers,
    Table,
    Type,
    Unknown,
    Word,
    constant_type,
    defaults_of,
    name_of,
    spelled,
    symbol,
)
from fuzz.slow_values import FLOAT, INT, LITERALS, Record, Row, Trap, Unsupported

COMPONENTS = "xyzw"


@dataclass(frozen=True)
class E:
    """A typed expression; const: its value, where that is known in the text; numbers: of a choice between numbers of the source, all of them."""

    type: object
    run: Callable
    const: object = None
    numbers: tuple = ()

    @property
    def all_numbers(self) -> tuple:
        return self.numbers or (self.const,)


@dataclass(frozen=True)
class M:
    """A name for memory: one handle a lane.  across: its first index is a block's rank; shape: its extents, None for one that the text does not tell, or for all."""

    element: object
    run: Callable
    across: bool = False
    shape: tuple | None = None


@dataclass(frozen=True)
class Value:
    slot: int
    type: object
    privilege: Privilege | None
    unset: bool = False


@dataclass(frozen=True)
class Named:
    """Memory, or a local array."""

    slot: int
    element: object
    across: bool = False
    privilege: Privilege | None = None
    held: Privilege | None = None  # of memory, whose it is, where that is known
    rank: int = 0  # of a local array
    shape: tuple | None = None  # as the text tells it
    fragment: object = None  # what it holds: slow_fragments.Held


@dataclass(frozen=True)
class Stages:
    slot: int
    element: object
    across: bool
    shape: tuple | None


@dataclass(frozen=True)
class Fixed:
    """A constant; of a type, or a number that takes its type from what it meets."""

    value: object
    type: object


class Given(ast.expr):
    """An operand that has been compiled: of a vector, its component k."""

    def __init__(self, e: E, k: int):
        super().__init__()
        self.e, self.k = e, k


def in_units(L: list, n: int | str | None) -> list[list[int]]:
    """The positions of lanes in L, for each n threads of a block (None: each block; or "cluster", "grid") together."""
    found: dict = {}
    for position, lane in enumerate(L):
        if isinstance(n, int) and n < 32:  # a part of a warp is all that its group has of the block
            found.setdefault(lane.block, []).append(position)
            continue
        key = {None: lane.block, "cluster": lane.cluster, "grid": 0}.get(n) if not isinstance(n, int) else (lane.block, lane.thread // n)
        found.setdefault(key, []).append(position)
    units = list(found.values())
    if isinstance(n, int) and any(len(unit) != n for unit in units):
        raise Trap(f"a collective of {n} threads, executed by fewer")
    return units


def constant(v, t=None) -> E:
    return E(constant_type(v) if t is None else t, lambda G, L: [v] * len(L), v)


def converted(e: E, t) -> E:
    if e.type == t:
        return e
    if isinstance(e.type, tuple) or isinstance(t, tuple):
        raise Unsupported(f"{e.type} as {t}")
    if e.const is not None:
        return constant(sv.convert(e.const, e.type, t), t)
    source, run = e.type, e.run
    return E(t, lambda G, L: [sv.convert(v, source, t) for v in run(G, L)])


def met(a: E, b: E):
    """The type at which two operands are computed."""
    if a.type in LITERALS and b.type not in LITERALS:
        a, b = b, a
    if b.type != INT or a.type in LITERALS:
        return sv.common(a.type, b.type)
    types = [sv.common(a.type, INT, n) for n in b.all_numbers]
    return functools.reduce(sv.common, types)


def settled(e: E) -> E:
    if e.type not in LITERALS:
        return e
    return converted(e, "f32" if e.type == FLOAT else functools.reduce(sv.common, (sv.settled(INT, n) for n in e.all_numbers)))


def selected(G, L, chosen: list, yes: Callable, no: Callable) -> list:
    """yes for the lanes that are chosen, no for the others; neither for none."""
    ours = [lane for lane, c in zip(L, chosen) if c]
    others = [lane for lane, c in zip(L, chosen) if not c]
    a, b = iter(yes(G, ours) if ours else ()), iter(no(G, others) if others else ())
    return [next(a) if c else next(b) for c in chosen]


class Scope:
    def __init__(self, parent: Scope | None):
        self.parent, self.names = parent, {}

    def find(self, name: str):
        scope = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


class Expressions(Records):
    """Compiles expressions in a scope.  target: the privilege that an expression is evaluated for, None for the code's own."""

    def __init__(self, program, outside: dict):
        self.program, self.outside = program, outside
        self.scope, self.target, self.slots = Scope(None), None, 0
        self.threads, self.per_block = None, None  # in the group that acts, and in a block, where the text and the call say it

    # ---- names

    def new_slot(self) -> int:
        self.slots += 1
        return self.slots

    def lookup(self, name: str):
        found = self.scope.find(name)
        if found is None:
            found = self.outside.get(name, BUILTIN.get(name))
        if isinstance(found, Unknown):
            raise Unsupported(f"the value of `{name}`")
        return found

    def static(self, name: str):
        """A name in a type or privilege."""
        if "." in name:
            first, rest = name.split(".", 1)
            inside = self.lookup(first)
            return inside.final().get(rest) if hasattr(inside, "final") else None
        found = self.lookup(name)
        return found.value if isinstance(found, Fixed) else found

    @contextmanager
    def aimed(self, target: Privilege | None):
        before, self.target = self.target, target
        yield
        self.target = before

    def number(self, node: ast.expr) -> int:
        e = self.expression(node)
        if e.const is None:
            raise Unsupported(f"`{ast.unparse(node)}` as a constant")
        return e.const

    def type(self, node: ast.expr):
        return spelled(node, self.static, self.number)

    def privilege(self, node: ast.expr) -> Privilege:
        found = self.units(node)
        if found is None:
            raise Unsupported(f"the privilege `{ast.unparse(node)}`")
        return found

    def units(self, node: ast.expr) -> Privilege | None:
        """What a privilege, or a level, is; None where an expression is something else."""
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute) and node.value.func.attr == "every":
            level = self.units(node.value.func.value)
            return None if level is None else level.every(self.number(node.value.args[0]))[self.number(node.slice)]
        if isinstance(node, ast.Subscript):
            level = self.units(node.value)
            return None if level is None else level[self.number(node.slice)]
        found = self.static(name_of(node)) if name_of(node) else None
        return found[1] if isinstance(found, Level) else found if isinstance(found, Privilege) else None

    @contextmanager
    def acting(self, p: Privilege | None):
        """In code of a group of these units; None: of as many as a launch decides."""
        before = self.threads
        of_blocks = None if p is None or p.level != "block" or self.per_block is None else p.n * self.per_block
        self.threads = p.n if p is not None and p.level == "thread" else of_blocks
        yield
        self.threads = before

    # ---- values

    def expression(self, node: ast.expr) -> E:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise Unsupported(type(node).__name__)
        return method(node)

    def _Constant(self, node) -> E:
        if not isinstance(node.value, (bool, int, float)):
            raise Unsupported(f"the constant {node.value!r}")
        return constant(node.value)

    def _Tuple(self, node) -> E:
        parts = [settled(self.expression(item)) for item in node.elts]
        return self.made(parts, Record("tuple", tuple((str(k), e.type) for k, e in enumerate(parts))))

    def _Name(self, node) -> E:
        found = self.lookup(node.id)
        match found:
            case Held():
                return self.loaded(self.place_of(node))
            case Value():
                slot = found.slot
                if found.unset:
                    return E(found.type, lambda G, L: [self._set(lane.v[slot], node.id) for lane in L])
                return E(found.type, lambda G, L: [lane.v[slot] for lane in L])
            case Fixed():
                return constant(found.value, found.type)
            case bool() | int() | float():
                return constant(found)
        raise Unsupported(f"`{node.id}` as a value")

    @staticmethod
    def _set(v, name):
        if v is None:
            raise Trap(f"`{name}` is read before it was assigned")
        return v

    def _Attribute(self, node) -> E:
        if (place := self.place_of(node)) is not None:
            return self.loaded(place)
        if (e := self._record(node.value)) is not None:
            return self.part_of_value(e, node.attr)
        if node.attr in COMPONENTS:
            e = self.expression(node.value)
            if not isinstance(e.type, tuple):
                raise Unsupported(f".{node.attr}")
            k, run = COMPONENTS.index(node.attr), e.run
            return E(e.type[1], lambda G, L: [v[k] for v in run(G, L)])
        of = self.static(name_of(node.value)) if name_of(node.value) else None
        if isinstance(of, Type) and node.attr in ("bytes", "bits"):
            return constant(sv.size_of(of.t) * (8 if node.attr == "bits" else 1))
        found = self.static(name_of(node))
        if isinstance(found, (bool, int, float)):
            return constant(found)
        raise Unsupported(f"`{ast.unparse(node)}`")

    def _record(self, node: ast.expr) -> E | None:
        """A record, or an array in one, that is a value; None where it is something else, or a place."""
        match node:
            case ast.Name():
                found = self.scope.find(node.id)
                return self.expression(node) if isinstance(found, Value) and isinstance(found.type, Record) else None
            case ast.Attribute():
                inside = self._record(node.value)
                e = None if inside is None else self.part_of_value(inside, node.attr)
            case ast.Call(func=ast.Name(id=name)) if isinstance(self.static(name), (Function, Inlined, RecordClass)):
                e = self.expression(node)
            case ast.IfExp():
                e = self.expression(node)
            case _:
                return None
        return e if e is not None and isinstance(e.type, (Record, Row)) else None

    def _UnaryOp(self, node) -> E:
        e = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            run = self.condition(e)
            if e.const is not None:
                return constant(not e.const)
            return E("bool", lambda G, L: [not v for v in run(G, L)])
        if isinstance(node.op, ast.UAdd):
            return e
        function = (lambda v: ~int(v)) if isinstance(node.op, ast.Invert) else (lambda v: -v)
        if isinstance(e.type, tuple):
            run, part = e.run, e.type[1]
            return E(e.type, lambda G, L: [tuple(sv.wrap(function(x), part) if sv.is_int(part) else function(x) for x in v) for v in run(G, L)])
        if e.type in LITERALS:
            return self._of_numbers(function, e) if e.const is None else constant(function(e.const), e.type)
        t = sv.promoted(e.type)
        e = converted(e, t)
        whole = sv.is_int(t)
        if e.const is not None:
            return constant(sv.wrap(function(e.const), t) if whole else function(e.const), t)
        run = e.run
        return E(t, lambda G, L: [sv.wrap(function(v), t) if whole else function(v) for v in run(G, L)])

    def _BinOp(self, node) -> E:
        return self.binary(symbol(node.op), self.expression(node.left), self.expression(node.right))

    def _by_components(self, op: str, a: E, b: E) -> E:
        """Vectors of one type, or a vector and a scalar that meets every component, which stays of its type."""
        t = a.type if isinstance(a.type, tuple) else b.type
        a, b = (e if e.type == t else converted(e, t[1]) for e in (a, b))
        f, left, right = sv.operation(op, sv.promoted(t[1])), a.run, b.run
        each = lambda v: v if isinstance(v, tuple) else (v,) * t[2]  # noqa: E731
        back = lambda v: sv.convert(v, sv.promoted(t[1]), t[1])  # noqa: E731

        def run(G, L):
            x = left(G, L)
            return [tuple(back(f(p, q)) for p, q in zip(each(v), each(w))) for v, w in zip(x, right(G, L))]
        return E(t, run)

    def binary(self, op: str, a: E, b: E) -> E:
        if isinstance(a.type, tuple) or isinstance(b.type, tuple):
            return self._by_components(op, a, b)
        if a.type in LITERALS and b.type in LITERALS:
            if a.const is not None and b.const is not None:
                return constant(sv.folded(op, a.const, b.const))
            a, b = settled(a), settled(b)
        if op in ("<<", ">>"):
            a, b = settled(a), settled(b)
            t = sv.promoted(a.type)
            a = converted(a, t)
        else:
            t = met(a, b)
            a, b = converted(a, t), converted(b, t)
        f = sv.operation(op, t)
        if a.const is not None and b.const is not None:
            return constant(f(a.const, b.const), t)
        left, right = a.run, b.run

        def run(G, L):
            x = left(G, L)
            return [f(p, q) for p, q in zip(x, right(G, L))]
        return E(t, run)

    def condition(self, e: E) -> Callable:
        run = e.run
        return run if e.type == "bool" else lambda G, L: [v != 0 for v in run(G, L)]

    def _Compare(self, node) -> E:
        operands = [self.expression(n) for n in (node.left, *node.comparators)]
        tests = []
        for op, a, b in zip(node.ops, operands, operands[1:]):
            t = met(a, b)
            t = t if t not in LITERALS else "f32" if t == FLOAT else None
            tests.append((sv.COMPARE[symbol(op)], self._into(a, t), self._into(b, t)))
        if all(e.const is not None for e in operands):
            pairs = zip(tests, operands, operands[1:])
            return constant(all(test(into_a(a.const), into_b(b.const)) for (test, into_a, into_b), a, b in pairs))

        def run(G, L):
            result, active, before = {lane: True for lane in L}, L, operands[0].run(G, L)
            for (test, into_a, into_b), e in zip(tests, operands[1:]):
                after = e.run(G, active)
                keep = []
                for lane, x, y in zip(active, before, after):
                    if test(into_a(x), into_b(y)):
                        keep.append((lane, y))
                    else:
                        result[lane] = False
                active, before = [lane for lane, _ in keep], [y for _, y in keep]
                if not active:
                    break
            return [result[lane] for lane in L]
        return E("bool", run)

    @staticmethod
    def _into(e: E, t) -> Callable:
        return (lambda v: v) if t is None or e.type == t else (lambda v, source=e.type: sv.convert(v, source, t))

    def _BoolOp(self, node) -> E:
        stop = isinstance(node.op, ast.Or)
        operands: list[E] = []
        for n in node.values:  # what constants decide is not there
            e = self.expression(n)
            if e.const is not None:
                if bool(e.const) == stop:
                    operands.append(constant(stop))
                    break
                continue
            operands.append(e)
        if not operands:
            return constant(not stop)
        if operands[0].const is not None:
            return constant(stop)
        runs = [self.condition(e) for e in operands]

        def run(G, L):
            result, active = {lane: not stop for lane in L}, L
            for one in runs:
                found = one(G, active)
                for lane, v in zip(active, found):
                    if v == stop:
                        result[lane] = stop
                active = [lane for lane, v in zip(active, found) if v != stop]
                if not active:
                    break
            return [result[lane] for lane in L]
        return E("bool", run)

    def _IfExp(self, node) -> E:
        test = self.expression(node.test)
        a, b = self.expression(node.body), self.expression(node.orelse)
        if a.type in LITERALS and b.type in LITERALS:
            t = sv.common(a.type, b.type)
            a, b = (self._of_numbers(float, e) if t == FLOAT else e for e in (a, b))
        else:
            t = a.type if a.type == b.type else met(a, b)
            a, b = converted(a, t), converted(b, t)
        if test.const is not None:
            return a if test.const else b
        decide, yes, no = self.condition(test), a.run, b.run
        return E(t, lambda G, L: selected(G, L, decide(G, L), yes, no), None, a.all_numbers + b.all_numbers if t in LITERALS else ())

    @staticmethod
    def _of_numbers(function: Callable, *operands: E) -> E:
        """A function of numbers of the source, and of choices between them."""
        t = FLOAT if function is float or any(e.type == FLOAT for e in operands) else INT
        if all(e.const is not None for e in operands):
            return constant(function(*(e.const for e in operands)), t)
        found = tuple(function(*numbers) for numbers in itertools.product(*(e.all_numbers for e in operands)))
        runs = [e.run for e in operands]
        return E(t, lambda G, L: [function(*values) for values in zip(*(run(G, L) for run in runs))], None, found)

    def _looked_up(self, table: Table, node) -> E:
        index = self.indices(node.slice)

        def run(G, L):
            found = []
            for at in index(G, L):
                v = table.values
                for i in at:
                    if not 0 <= i < len(v):
                        raise Trap(f"index {i} is outside of a table")
                    v = v[i]
                found.append(sv.convert(v, None, table.element))
            return found
        return E(table.element, run)

    def _Subscript(self, node) -> E:
        table = self.outside.get(node.value.id) if isinstance(node.value, ast.Name) and self.scope.find(node.value.id) is None else None
        if isinstance(table, Table):
            return self._looked_up(table, node)
        if (lies := self.place_of(node)) is not None:
            return self.loaded(lies)
        if (e := self._record(node.value)) is not None:
            return self.part_of_value(e, str(self.number(node.slice))) if isinstance(e.type, Record) else self.element_of_value(e, node.slice)
        element, place = self.element(node)
        return E(element, lambda G, L: [h.load(i) for h, i in place(G, L)])

    # ---- memory

    def indices(self, node: ast.expr) -> Callable:
        """The index that a subscript names, a tuple a lane."""
        runs = [settled(e).run for e in map(self.expression, node.elts if isinstance(node, ast.Tuple) else [node])]
        return lambda G, L: list(zip(*(run(G, L) for run in runs)))

    def element(self, node: ast.Subscript) -> tuple:
        """The type of an element, and its handle and index for each lane."""
        memory, index = self.memory(node.value), self.indices(node.slice)

        def place(G, L):
            handles = memory.run(G, L)
            return list(zip(handles, index(G, L)))
        return memory.element, place

    def memory(self, node: ast.expr) -> M:
        match node:
            case ast.Name():
                found = self.lookup(node.id)
                if isinstance(found, Named):
                    slot = found.slot
                    return M(found.element, lambda G, L: [lane.v[slot] for lane in L], found.across, found.shape)
            case ast.Call(func=ast.Attribute(attr="view"), args=[of]):
                inner, t = self.memory(node.func.value), self.type(of)
                shape = inner.shape and (*inner.shape[:-1], inner.shape[-1] and inner.shape[-1] * sv.size_of(inner.element) // sv.size_of(t))
                return M(t, lambda G, L: [View(h, t) for h in inner.run(G, L)], inner.across, shape)
            case ast.Call(func=ast.Name(id="tile"), args=[of, corner, extents]):
                inner, at = self.memory(of), self.indices(corner)
                shape = tuple(self.number(n) for n in (extents.elts if isinstance(extents, ast.Tuple) else [extents]))
                return M(inner.element, lambda G, L: [Window(h, c, shape) for h, c in zip(inner.run(G, L), at(G, L))], shape=shape)
            case ast.Subscript(value=of, slice=first):
                inner, at = self.memory(of), self.indices(first)
                given = len(first.elts) if isinstance(first, ast.Tuple) else 1
                return M(inner.element, lambda G, L: [Rest(h, c) for h, c in zip(inner.run(G, L), at(G, L))], shape=inner.shape and inner.shape[given:])
        raise Unsupported(f"`{ast.unparse(node)}` as memory")

    # ---- calls

    def _Call(self, node) -> E:
        name = name_of(node.func)
        space, _, word = name.rpartition(".")
        if space in ("intrinsic", "atomic", "fast", "unsafe", "fragment"):
            if space == "fast" or space == "intrinsic" and known_as_mathematics(word):
                return self._math(word, node)
            if space == "unsafe":
                raise Unsupported("unsafe")
            return self.program.operations[space](self, word, node)
        found = self.static(name) if name else None
        if isinstance(found, Function):
            return self.call(found, node)
        if isinstance(found, Word):
            return self._Call(ast.Call(ast.parse(found.text, mode="eval").body, node.args, node.keywords))
        if isinstance(found, Inlined):
            return self._inlined(found, node)
        if isinstance(found, RecordClass):
            return self.constructed(found.type(self.static, self.number), node)
        if isinstance(found, Type):
            return self._cast(found.t, node)
        if name == "id":
            return self._id()
        if name in ("acc_row", "acc_column"):
            return self._accumulator_place(name, node)
        if name == "count":
            p = self.privilege(node.args[0])
            known = self.threads // p.n if p.level == "thread" and self.threads is not None else None
            return E("i32", lambda G, L: [G.count(p)] * len(L), known)
        if name in self.program.operations["words"]:
            return self.program.operations["words"][name](self, node)
        return self._math(name, node)

    def _inlined(self, found: Inlined, node: ast.Call) -> E:
        """Each argument is evaluated once, before; what is a constant stays one."""
        body = [s for s in found.node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        names = [a.arg for a in found.node.args.args]
        if len(body) != 1 or not isinstance(body[0], ast.Return) or node.keywords or len(node.args) != len(names):
            raise Unsupported("an inlined function of several statements")
        given, before, steps = [self.expression(n) for n in node.args], self.scope, []
        self.scope = Scope(before)
        for name, e in zip(names, given):
            slot = self.new_slot()
            self.scope.names[name] = Fixed(e.const, e.type) if e.const is not None else Value(slot, settled(e).type, None)
            steps += [(slot, settled(e).run)] if e.const is None else []
        result = self.expression(body[0].value)
        self.scope = before

        def run(G, L):
            for slot, value in steps:
                for lane, v in zip(L, value(G, L)):
                    lane.v[slot] = v
            return result.run(G, L)
        return E(result.type, run, result.const, result.numbers)

    def _accumulator_place(self, name: str, node) -> E:
        """Of an accumulator as PTX lays it out: pairs of columns go around the lanes of a row, two rows of 8 apart, then the next 8 columns."""
        run, of = converted(settled(self.expression(node.args[0])), "i32").run, self.privilege(node.args[1]).n

        def place(lane, j):
            own = lane.thread % of
            row = own // 32 * 16 + own % 32 // 4 + (8 if j % 4 >= 2 else 0)
            return row if name == "acc_row" else j // 4 * 8 + own % 4 * 2 + j % 2
        return E("i32", lambda G, L: [place(lane, j) for lane, j in zip(L, run(G, L))])

    def _id(self) -> E:
        p = self.target
        if p is None:
            return E("i32", lambda G, L: [0] * len(L))
        return E("i32", lambda G, L: [G.unit(lane, p) for lane in L])

    def _cast(self, t, node) -> E:
        parts = [self.expression(n) for n in node.args]
        if not isinstance(t, tuple):
            return converted(parts[0], t)
        if len(parts) == 1 and isinstance(parts[0].type, tuple):
            run, source = parts[0].run, parts[0].type[1]
            return E(t, lambda G, L: [tuple(sv.convert(x, source, t[1]) for x in v) for v in run(G, L)])
        parts = parts * t[2] if len(parts) == 1 else parts
        if len(parts) != t[2]:
            raise Unsupported(f"a vector of {len(parts)} parts")
        runs = [converted(e, t[1]).run for e in parts]
        return E(t, lambda G, L: list(zip(*(run(G, L) for run in runs))))

    def _Given(self, node) -> E:
        e, k = node.e, node.k
        return E(e.type[1], lambda G, L: [v[k] for v in e.run(G, L)]) if isinstance(e.type, tuple) else e

    def _math(self, name: str, node) -> E:
        operands = [self.expression(n) for n in node.args]
        if not operands:
            raise Unsupported(f"`{name}(...)`")
        vector = next((e.type for e in operands if isinstance(e.type, tuple)), None)
        if vector is not None:  # component by component
            parts = [self._math(name, ast.Call(node.func, [Given(e, k) for e in operands], [])) for k in range(vector[2])]
            runs = [converted(e, vector[1]).run for e in parts]
            return E(vector, lambda G, L: list(zip(*(run(G, L) for run in runs))))
        t = operands[0].type
        for e, before in zip(operands[1:], operands):
            t = met(before, e) if len(operands) == 2 else sv.common(t, e.type)
        if name in sv.NUMBERS:
            arity, f = sv.NUMBERS[name]
            if all(e.type in LITERALS for e in operands):
                if name in ("min", "max") and len(operands) == arity:
                    return self._of_numbers(lambda *numbers: f("f64" if t == FLOAT else "i64", *(float(n) if t == FLOAT else n for n in numbers)), *operands)
                t = settled(operands[0]).type
            t = sv.promoted(t)
        elif name in sv.WHOLES:
            arity, f = sv.WHOLES[name]
            t = sv.promoted(settled(operands[0]).type if t in LITERALS else t)
        elif name in sv.REALS or name in sv.QUESTIONS:
            arity, f = sv.REALS.get(name) or (1, lambda t, a: sv.QUESTIONS[name](a))
            t = t if sv.is_float(t) else "f32"
        else:
            raise Unsupported(f"`{name}(...)`")
        if len(operands) != arity or node.keywords:
            raise Unsupported(f"`{ast.unparse(node)}`")
        runs = [converted(e, t).run for e in operands]
        result = "i32" if name in ("clz", "popc", "ffs") else "bool" if name in sv.QUESTIONS else "u8" if name.startswith("to_") else "f32" if name.startswith("from_") else t
        return E(result, lambda G, L: [f(t, *values) for values in zip(*[run(G, L) for run in runs])])

    def call(self, function: Function, node: ast.Call) -> E:
        """Arguments are evaluated from left to right; then the function runs, once for each group that it requires."""
        given = {a.arg: n for a, n in zip(function.node.args.args, node.args)} | {k.arg: k.value for k in node.keywords}
        constants = dict(function.constants)
        rest = [a.arg for a in function.node.args.args if a.arg not in constants]
        if constants:
            given = dict(zip(rest, node.args)) | {k.arg: k.value for k in node.keywords}
        constants |= self._constexprs(function, constants, given)
        compiled = self.program.compiled(replace(function, constants=tuple(constants.items())))
        arguments = []
        by_name = {p.name: p for p in compiled.parameters}
        for name, argument in given.items():  # in the order of the text
            if name in by_name:
                with self.aimed(self.target if compiled.is_as_uniform(self.target) else by_name[name].privilege or compiled.required[0]):
                    arguments.append((by_name[name].slot, self._argument(by_name[name].type, argument)))

        def run(G, L):
            values = [(slot, evaluate(G, L)) for slot, evaluate in arguments]
            callees = [lane.with_variables({slot: column[n] for slot, column in values}) for n, lane in enumerate(L)]
            compiled.execute(G, callees)
            return [lane.result for lane in callees]
        return E(compiled.result, run)

    def _constexprs(self, function: Function, known: dict, given: dict[str, ast.expr]) -> dict:
        """Constexpr parameters of a call: what it says, their defaults, and what the other arguments tell."""
        found, defaults, left = {}, defaults_of(function.node), set()
        for name, is_type in constexprs(function.node).items():
            if name in known:
                continue
            if name in given:
                found[name] = self.static(name_of(given[name])) if is_type else self.number(given[name])
            elif name in defaults:
                found[name] = defaults[name]
            else:
                left.add(name)
        if left:
            found |= told(function.node, left, lambda name: self._seen(given[name]) if name in given else None)
        if left - found.keys():
            raise Unsupported("a constexpr parameter that the arguments do not tell")
        return found

    def _seen(self, node: ast.expr) -> Seen:
        root = node
        while isinstance(root, (ast.Subscript, ast.Attribute, ast.Call)):
            root = root.value if not isinstance(root, ast.Call) else root.args[0] if name_of(root.func) == "tile" else root.func
        found = self.scope.find(root.id) if isinstance(root, ast.Name) else None
        if isinstance(found, Named):
            memory = self.memory(node) if not isinstance(node, ast.Subscript) or self._is_a_part(node) else None
            if memory is not None:
                return Seen(memory.element, memory.shape, ARRAY)
        e = self.expression(node)
        return Seen(settled(e).type, (), NUMBER if e.type in LITERALS else VALUE)

    def _is_a_part(self, node: ast.Subscript) -> bool:
        """Whether a subscript has fewer indices than its memory has dimensions."""
        inner = self.memory(node.value)
        return inner.shape is not None and len(inner.shape) > (len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1)

    def _argument(self, t, node: ast.expr) -> Callable:
        match t:
            case Pointer():
                memory = self.memory(node)
                run = memory.run
                if memory.across:
                    return lambda G, L: [Own(h, lane.rank) for h, lane in zip(run(G, L), L)]
                return run
            case Reference(Record()):
                return self.referred(node)
            case Record():
                return self.record_argument(t, node)
            case Reference():
                return self.memory(node).run
            case Registers():
                run = self.memory(node).run
                return lambda G, L: [copied(h) for h in run(G, L)]
            case Constexpr():
                raise Unsupported("a constexpr argument")
        return converted(self.expression(node), t).run


def known_as_mathematics(word: str) -> bool:
    return any(word in known for known in (sv.NUMBERS, sv.WHOLES, sv.REALS, sv.QUESTIONS))


def copied(h: Handle) -> Array:
    """A local array, or a window of one, by value."""
    if isinstance(h, Array):
        return replace(h, memory=h.memory.copy())
    own = Array(sv.Memory.of(math.prod(h.shape) * sv.size_of(h.element), "local"), h.element, h.shape)
    for at in itertools.product(*map(range, h.shape)):
        own.store(at, h.load(at))
    return own


def fitted(h: Handle, extents: tuple | None) -> Handle:
    """An argument as a pointer parameter of that shape sees it."""
    ndim = 1 if extents is None else len(extents)
    if h.ndim == ndim:
        return h
    if ndim == 1 or h.ndim == 1:
        return Reshaped(h, extents)
    raise Unsupported(f"an array of {h.ndim} dimensions for a pointer of {ndim}")


__all__ = ["E", "M", "Expressions", "Fixed", "Lambda", "Named", "Scope", "Stages", "Value", "constant", "converted", "fitted", "settled"]
