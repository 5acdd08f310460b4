"""Read contracts of device functions: `where=`, `ensures=`, `pairs=` and `calls=` of their decorators.

Input: a function's signature, and the conditions that its decorator was given.  Output: an `ir.Contract`, or SNAP028
at the part of a condition that cannot stand.  Invariant: a condition that passes is made of integers, bools, arrays of
them, lengths of pointers, and the operations that walk/where.py knows.  Non-goals: whether a contract holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Any, NoReturn

from snap._compiler.check.core.specs import SpecKind
from snap._compiler.check.core.state import Checker
from snap._compiler.check.functions.signatures import ParamSpec
from snap._compiler.frontend import tree
from snap._compiler.frontend.conditions import condition_tree
from snap._compiler.frontend.definition import Definition
from snap._compiler.frontend.printer import expression
from snap._compiler.ir.contracts import Condition, Contract
from snap._compiler.ir.types import Array, Element, Level, Scalar, ScalarKind, ValueType, Vector
from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span
from snap.record import record

CODE = "SNAP028"
WORDS = ("where", "ensures", "pairs", "calls")
OPERATORS = ("+", "-", "*", "//", "%", "**", "<<")
FUNCTIONS = ("len", "min", "max", "abs", "all", "any", "range")
FLOATS = "leave it out; of floats, `assert` what holds: it is checked when it runs"
OTHERS = f"use integers, {' '.join(OPERATORS)}, comparisons, `and`, `or`, `not`, `if-else`, {', '.join(FUNCTIONS)}"
KEY = "a contract"  # under which the trees are kept, with the function's other instances


class NameKind(Enum):
    """Classify a name in a condition. ABSENT: a parameter of the condition that the function does not have."""

    INTEGER = auto()
    ARRAY = auto()  # of integers
    POINTER = auto()
    ABSENT = auto()


@record
class Unsaid:
    """Stand for something that no contract speaks of, such as floats. text: what it is, for the message."""

    text: str


INTEGER, ARRAY, POINTER, ABSENT = NameKind
Meaning = NameKind | Unsaid | dict[str, Any]  # of the last, its attributes


def contract_of(
    c: Checker, specs: Iterable[ParamSpec], constexprs: Mapping[str, object], returns: tuple[Element, object] | None
) -> Contract | None:
    definition = c.definition
    if definition.kernel or not any(getattr(definition.requires, word) for word in WORDS):
        return None
    values = {p.name: p for p in specs if p.spec.kind is not SpecKind.CONSTEXPR}
    params: dict[str, Meaning] = {name: _kind_of(p.spec.kind, p.spec.type) for name, p in values.items()}
    constants = {name: value for name, value in constexprs.items() if isinstance(value, (bool, int))}
    held = c.place.held(Level.THREAD)
    called = {} if held is None or held.count is None else {"threads": held.count}
    numbers: dict[str, int] = {**called, **{name: int(value) for name, value in constants.items()}}
    given: dict[str, Meaning] = {
        **params,
        **dict.fromkeys(constexprs, Unsaid("no integer")),
        **{name: INTEGER for name in numbers if name not in params},
    }
    given.setdefault("threads", INTEGER)
    after: dict[str, Meaning] = {**given, "id": INTEGER, **params}
    if returns is not None:
        after["result"] = _kind_of(SpecKind.VALUE, returns[0])
    after["old"] = {name: kind for name, kind in params.items() if kind is ARRAY}
    found: dict[str, tuple[Condition, ...]] = {}
    for word, parsed, outside in _trees(definition):
        scope: dict[str, Meaning] = given if word == "where" else after
        if word in ("pairs", "calls"):
            _of_two(c, word, parsed)
            scope = {name: {**after, "id": INTEGER} for name in parsed.params}
        names = {**_outside(outside), **{name: scope.get(name, ABSENT) for name in parsed.params}}
        known = tuple((name, int(n)) for name, n in sorted(outside.items()) if isinstance(n, (bool, int)))
        parts = parsed.body.items if isinstance(parsed.body, tree.Sequence) else (parsed.body,)
        for one in parts:
            _Reader(names, word).condition(one)
        found[word] = tuple(Condition(parsed.params, one, expression(one), known, span=one.span) for one in parts)
    return Contract(
        **found,
        names=tuple(sorted((name, n) for name, n in numbers.items() if name not in params)),
        params=tuple(params),
    )


def _trees(definition: Definition) -> list[tuple[str, tree.Lambda, dict[str, object]]]:
    made = definition.made.get(KEY)
    if made is None:
        asked = [(word, getattr(definition.requires, word)) for word in WORDS]
        made = [(word, *condition_tree(given)) for word, given in asked if given is not None]
        definition.made[KEY] = made
    return made


def _kind_of(kind: SpecKind, t: ValueType) -> Meaning:
    elem = t.elem if isinstance(t, Array) else t
    if kind is SpecKind.POINTER:
        return POINTER
    if isinstance(t, Vector) and t.elem.is_integer:
        return dict.fromkeys(t.components, INTEGER)
    if not isinstance(elem, Scalar) or not (elem.is_integer or elem.kind is ScalarKind.BOOL):
        return Unsaid(f"`{t}`")
    return ARRAY if isinstance(t, Array) else INTEGER


def _outside(names: Mapping[str, object]) -> dict[str, Meaning]:
    return {name: INTEGER if type(n) in (bool, int) else Unsaid(type(n).__name__) for name, n in names.items()}


def _of_two(c: Checker, word: str, parsed: tree.Lambda) -> None:
    if len(parsed.params) != 2:
        message = f"`{word}=` is a function of two threads, not of {len(parsed.params)}"
        raise refused(message, parsed.span, help=f"`{word}=lambda a, b: a.result != b.result`")
    if c.place.top > Level.BLOCK or c.place.top is Level.BLOCK and c.place[Level.BLOCK].count != 1:
        message = f"`{word}=` compares threads of a block, and `{c.definition.tree.name}` is called by `{c.privilege}`"
        raise refused(message, parsed.span, help="say it of a function that blocks, warps or threads call")


def refused(message: str, span: Span, label: str = "", help: str = "") -> SnapError:
    return SnapError(Diagnostic(CODE, message, span, label, help=help))


class _Reader:
    """Looks at the parts of one condition."""

    def __init__(self, names: Mapping[str, Meaning], word: str):
        self.names, self.word = dict(names), word

    def condition(self, e: tree.Expr) -> None:
        match e:
            case tree.Compare("in" | "not in", left, tree.Sequence(items)):
                for one in (left, *items):
                    self.number(one)
            case tree.Compare("in" | "not in", left, tree.Call(tree.Name("range"), args)) if len(args) in (1, 2):
                for one in (left, *args):
                    self.number(one)
            case tree.Compare("in" | "not in", _, right):
                raise self._wrong("what `in` looks through is a tuple, or `range(a, b)`", right, "`n in (1, 2, 4)`")
            case tree.Compare(_, left, right):
                self.number(left)
                self.number(right)
            case tree.Chain(_, operands):
                for one in operands:
                    self.number(one)
            case tree.Logical(_, left, right):
                self.condition(left)
                self.condition(right)
            case tree.Unary("not", value):
                self.condition(value)
            case tree.Conditional(cond, then, other):
                for one in (cond, then, other):
                    self.condition(one)
            case tree.Call(tree.Name("all" | "any"), (inner,), ()):
                self._each(inner)
            case tree.Sequence():
                raise self._wrong(
                    "a tuple of conditions cannot stand inside an expression", e, "join the conditions by `and`"
                )
            case _:
                self.number(e)

    def _each(self, e: tree.Expr) -> None:
        match e:
            case tree.Sequence(items):
                for one in items:
                    self.condition(one)
            case tree.Each(value, clauses):
                outer = dict(self.names)
                for name, iterable in clauses:
                    self._iterable(iterable)
                    self.names[name] = INTEGER
                self.condition(value)
                self.names = outer
            case _:
                raise self._wrong(
                    "`all` and `any` go through a comprehension, or a tuple", e, "`all(v[k] >= 0 for k in range(4))`"
                )

    def _iterable(self, e: tree.Expr) -> None:
        match e:
            case tree.Call(tree.Name("range"), args, ()) if 1 <= len(args) <= 3:
                for one in args:
                    self.number(one)
            case tree.Sequence(items):
                for one in items:
                    self.number(one)
            case _ if self._meaning(e) is not ARRAY:
                raise self._wrong("this is neither `range(...)`, nor a tuple, nor an array", e, "`for k in range(4)`")

    def number(self, e: tree.Expr) -> None:
        match e:
            case tree.Number(value) if isinstance(value, (bool, int)):
                return
            case tree.Name() | tree.Attribute() | tree.Subscript():
                kind = self._meaning(e)
                if kind is not INTEGER:
                    self._no_integer(e, kind)
            case tree.Unary("+" | "-", value):
                self.number(value)
            case tree.Binary(op, left, right) if op in OPERATORS:
                self.number(left)
                self.number(right)
            case tree.Binary("/", left, right):
                help = f"`{expression(left)} // {expression(right)}`"
                raise self._wrong("conditions are Python: `/` makes a float of integers", e, help)
            case tree.Conditional(cond, then, other):
                self.condition(cond)
                self.number(then)
                self.number(other)
            case tree.Call(tree.Name("len"), (tree.Name(name),), ()):
                if self.names.get(name) is not POINTER:
                    raise self._wrong(f"`len` takes a pointer among the parameters, and `{name}` is not one", e, OTHERS)
            case tree.Call(tree.Name("min" | "max" | "abs"), args, ()) if args:
                for one in args:
                    self.number(one)
            case (
                tree.Compare() | tree.Chain() | tree.Logical() | tree.Unary("not") | tree.Call(tree.Name("all" | "any"))
            ):
                self.condition(e)
            case _:
                raise self._wrong(
                    f"`{expression(e)}` is not made of integers, and a proof knows integers alone", e, OTHERS
                )

    def _meaning(self, e: tree.Expr) -> Meaning:
        match e:
            case tree.Name(name):
                found = self.names.get(name)
                if found is None:
                    raise self._wrong(
                        f"`{name}` is neither a parameter nor a number from outside",
                        e,
                        f"`{self.word}=lambda {name}: ...`, if it is a parameter",
                    )
                return found
            case tree.Attribute(value, name):
                of = self._meaning(value)
                if not isinstance(of, dict) or name not in of:
                    known = ", ".join(f"`{one}`" for one in of) if isinstance(of, dict) else ""
                    has = f"use {known}" if known else ""
                    raise self._wrong(f"`{expression(value)}` has no `{name}`", e, has)
                return of[name]
            case tree.Subscript(value, index):
                kind = self._meaning(value)
                if kind is POINTER:
                    self._no_integer(value, kind)
                if kind is not ARRAY:
                    help = "arrays are parameters: `v: ref(int[4])`, of which `v[0]` is an element"
                    raise self._wrong(f"`{expression(value)}` is not an array of integers", e, help)
                for one in index:
                    self.number(one)
                return INTEGER
            case _:
                raise self._wrong(
                    f"`{expression(e)}` is not made of integers, and a proof knows integers alone", e, OTHERS
                )

    def _no_integer(self, e: tree.Expr, kind: Meaning) -> NoReturn:
        text = expression(e)
        if kind is ARRAY:
            raise self._wrong(f"`{text}` is an array: name one of its elements", e, f"`{text}[0]`")
        if kind is POINTER:
            help = f"`len({text})`, its length, is known; of values in memory, assert what is loaded"
            raise self._wrong(f"`{text}` is a pointer: what it points to is not known before a launch", e, help)
        if isinstance(kind, dict):
            raise self._wrong(
                f"`{text}` is not a number: name an attribute of it", e, f"`{text}.{next(iter(kind), 'id')}`"
            )
        if not isinstance(kind, Unsaid):
            message = f"`{self.word}` asks for `{text}`, which the function does not have"
            has = [f"`{name}`" for name, one in self.names.items() if isinstance(one, dict) or one in (INTEGER, ARRAY)]
            raise self._wrong(message, e, f"use {', '.join(has)}" if has else FLOATS)
        raise self._wrong(f"`{text}` is {kind.text}: contracts speak of integers", e, FLOATS)

    def _wrong(self, message: str, e: tree.Expr, help: str = "") -> SnapError:
        return refused(message, e.span, f"in `{self.word}=`", help)
