"""Tell statements apart by number, and make numbers for what is new.

Input: a function.  Output: the same, in which every statement, those of the functions it calls included, has a `number`
of its own; numbers grow in the order of the text.  A statement keeps its number while passes change parts of it, and
what they put in gets one from the same `Numbers`: so tables that one pass makes are found by the next, whatever became
of the objects in between.  Invariant: no two statements of a program have one number; a function that is called twice
is one function.  Non-goals: expressions, which are nothing but their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import effects
from snap._compiler.ir.rewrite import changed, each, with_bodies
from snap._compiler.ir.walk import BRANCHED, expressions, own_expressions, statements
from snap.record import copied, replace

F = TypeVar("F", bound=ir.AnyFunction)
G = TypeVar("G", bound=ir.AnyFunction)


class Numbers:
    """The one source of new numbers for a program: of statements, variables, barriers and points."""

    def __init__(self) -> None:
        self.last = 0

    def new(self) -> int:
        self.last += 1
        return self.last

    def beyond(self, taken: Iterable[int]) -> None:
        """From here on, new numbers are none of these."""
        self.last = max(self.last, *taken, 0)

    def given(self, body: Iterable[ir.Stmt]) -> ir.Body:
        """The statements, those that have no number yet with one; and so those that stand in these."""
        return tuple(s if s.number else self._anew(s, self.given) for s in body)

    def copied(self, body: Iterable[ir.Stmt]) -> ir.Body:
        """The statements once more, each with a number of its own."""
        return tuple(self._anew(s, self.copied) for s in body)

    def apart(self, body: ir.Body, taken: set[int]) -> ir.Body:
        """The statements, those whose numbers are taken (or none) with others; what they have is taken then."""

        def one(s: ir.Stmt) -> ir.Stmt:
            number = self.new() if s.number in taken or not s.number else s.number
            taken.add(number)
            inside = lambda inner: self.apart(inner, taken)  # noqa: E731
            return with_bodies(s, inside) if s.number == number else _called(s, number, inside)

        return each(body, one)

    def _anew(self, s: ir.Stmt, inside: Callable[[ir.Body], ir.Body]) -> ir.Stmt:
        return _called(s, self.new(), inside)


def _called(s: ir.Stmt, number: int, inside: Callable[[ir.Body], ir.Body]) -> ir.Stmt:
    """The statement by another number, its bodies changed.  What it does itself is the same, so what is kept of that is
    kept of both: a program has thousands of statements, and each is asked again and again.
    """
    made = with_bodies(s, inside) if type(s) in BRANCHED else s
    made = copied(s) if made is s else made
    _put_number(made, number)
    for put, ask in _KEPT:
        put(made, ask(s))
    return made


_of: Any = ir.Statement
_put_number = _of.number.__set__
_KEPT = (
    (_of._effects.__set__, effects),
    (_of._own_expressions.__set__, own_expressions),
    (_of._expressions.__set__, expressions),
)


def _with_body(function: F, body: ir.Body) -> F:
    return replace(function, body=body)


def with_numbers(function: F, numbers: Numbers, rebuild: Callable[[Any, ir.Body], Any] = _with_body) -> Any:
    """The function with every statement numbered, 1, 2, 3, ...; new numbers that follow are none of these, nor of what
    the function declares.  `rebuild` makes a function of another one and its new body.
    """
    return _Numbering(numbers, rebuild).function(function)


class _Numbering:
    def __init__(self, numbers: Numbers, rebuild: Callable[[Any, ir.Body], Any]):
        self.numbers, self.rebuild = numbers, rebuild
        self.known: dict[int, Any] = {}  # by the number of a function
        self.count = 0

    def function(self, f: ir.AnyFunction) -> Any:
        if f.uid not in self.known:
            self.known[f.uid] = self.rebuild(f, self.body(f.body))
            self.numbers.beyond((self.count, *declared(f)))
        return self.known[f.uid]

    def body(self, body: ir.Body) -> ir.Body:
        return tuple(map(self.statement, body))

    def statement(self, s: ir.Stmt) -> ir.Stmt:
        self.count += 1
        number = self.count
        if isinstance(s, ir.Call):
            return changed(s, function=self.function(s.function), number=number)
        return _called(s, number, self.body)


def declared(f: ir.AnyFunction) -> Iterable[int]:
    """The numbers of what a function itself declares: its own, and those of variables, objects and handles."""
    yield f.uid
    for p in f.params:
        if isinstance(p, ir.MemParam):
            yield p.handle.uid
            yield p.handle.obj.uid
        else:
            yield p.var.uid
    for s in statements(f.body):
        match s:
            case ir.Declare(var) | ir.For(var):
                yield var.uid
            case ir.DeclareShared(obj, handle):
                yield obj.uid
                yield handle.uid
            case ir.Partition(handle=handle) | ir.Claim(handle=handle):
                yield handle.uid
