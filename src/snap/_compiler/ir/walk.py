"""Walking over the typed IR: every statement, every expression, in the order of the text."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, TypeVar, cast

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.fields import EVALUATED, EXPRESSIONS, PLACES, holding
from snap._compiler.ir.types import ValueType, scalar_of
from snap.record import kept

F = TypeVar("F", bound=ir.AnyFunction)


def bodies(s: ir.Stmt) -> tuple[ir.Body, ...]:
    """The bodies directly inside a statement."""
    found = _BODIES.get(type(s))
    return () if found is None else found(s)


# By class, since most statements have none, and are asked again and again.
_BODIES: dict[type, Callable[[Any], tuple[ir.Body, ...]]] = {
    ir.If: attrgetter("then", "other"),
    ir.While: attrgetter("pre", "body"),
    ir.Split: lambda s: tuple(case.body for case in s.cases),
    **dict.fromkeys((ir.For, ir.Group, ir.Partition, ir.Claim, ir.Turn, synced.Elect), lambda s: (s.body,)),
}
BRANCHED = frozenset(_BODIES)  # the classes of statements with bodies


def statements(body: ir.Body) -> list[ir.Stmt]:
    """All statements below, outer ones first; calls are not entered."""
    found: list[ir.Stmt] = []
    for s in body:
        found.append(s)
        if type(s) in _BODIES:
            found += _below(s)
    return found


_below = kept("_below", lambda s: [inner for body in bodies(s) for inner in statements(body)])


def contains(body: ir.Body, classes: frozenset[type]) -> bool:
    """Return whether there is a statement of one of these classes below; calls are not entered."""
    for s in body:
        if type(s) in classes or type(s) in _BODIES and not classes.isdisjoint(_classes(s)):
            return True
    return False


_classes = kept("_classes", lambda s: frozenset(map(type, _below(s))))


def lifetimes(body: ir.Body, home: tuple[int, int] = (0, 0)) -> list[tuple[ir.DeclareShared, ir.Body, tuple[int, int]]]:
    """Shared arrays, each with the statements of its lifetime, and the body it is declared in: the number of the
    statement that the body belongs to, and which of its bodies it is.
    """
    found = []
    for at, s in enumerate(body):
        if isinstance(s, ir.DeclareShared):
            found.append((s, body[at + 1 :], home))
        for k, inner in enumerate(bodies(s)):
            found += lifetimes(inner, (s.number, k))
    return found


def bytes_of(obj: ir.MemObject) -> int:
    """Compute the most bytes of a shared array."""
    return obj.elem.bytes * math.prod(ir.extents(obj.shape))


def at_launch(kernel: ir.AnyFunction) -> int:
    """The bytes of shared memory, at most, of the arrays whose size a launch decides."""
    arrays = (s.obj for s in statements(kernel.body) if type(s) is ir.DeclareShared and s.obj.extent is not None)
    return max((a.offset + bytes_of(a) for a in arrays), default=ir.AT_LAUNCH) - ir.AT_LAUNCH


CALL = frozenset((ir.Call,))


def callees(function: F) -> list[F]:
    """The function and all that it calls, each once."""
    known, found = {function.uid}, [function]
    for one in found:
        for s in statements(one.body) if contains(one.body, CALL) else ():
            if type(s) is ir.Call and s.function.uid not in known:
                known.add(s.function.uid)
                found.append(cast(F, s.function))
    return found


def _own_expressions(s: ir.Stmt) -> tuple[ir.Expr, ...]:
    """The expressions a statement evaluates itself (not those of statements inside it), as its fields hold them: in
    targets, accesses and tiles, too.
    """
    found: list[ir.Expr] = []
    for name, _ in holding(s, EVALUATED):
        _evaluated(getattr(s, name), found)
    return tuple(found)


own_expressions = kept("_own_expressions", _own_expressions)


def _evaluated(part: Any, found: list[ir.Expr]) -> None:
    cls = type(part)
    if cls in EXPRESSIONS:
        found.append(part)
    elif cls is tuple:
        for item in part:
            _evaluated(item, found)
    elif cls in PLACES:
        for name, _ in holding(part, EVALUATED):
            _evaluated(getattr(part, name), found)


def children(e: ir.Expr) -> tuple[ir.Expr, ...]:
    parts = _CHILDREN[type(e)]
    return () if parts is None else parts(e)


_CHILDREN: dict[type, Callable[[Any], tuple[ir.Expr, ...]] | None] = {
    **dict.fromkeys((ir.Const, ir.Read, ir.UnitId, ir.UnitCount, ir.Lane)),
    **dict.fromkeys((ir.Component, ir.Unary, ir.Cast, ir.Bitcast), lambda e: (e.value,)),
    **dict.fromkeys((ir.Binary, ir.Compare, ir.Logical), attrgetter("left", "right")),
    **dict.fromkeys((ir.Elem, ir.Lookup), attrgetter("index")),
    ir.ArrayValue: attrgetter("array.at"),
    ir.MakeVector: attrgetter("items"),
    ir.Load: lambda e: e.access.index if e.access.block is None else (*e.access.index, e.access.block),
    ir.Select: attrgetter("cond", "then", "other"),
    ir.Math: attrgetter("args"),
}


def walk(e: ir.Expr) -> list[ir.Expr]:
    """The expression and all parts of it, outer ones first."""
    found: list[ir.Expr] = []
    _parts(e, found)
    return found


def _parts(e: ir.Expr, found: list[ir.Expr]) -> None:
    found.append(e)
    inside = _CHILDREN[type(e)]
    if inside is not None:
        for part in inside(e):
            _parts(part, found)


def variables(*exprs: ir.Expr) -> list[ir.Var]:
    """The variables read, each once, in order of appearance."""
    seen: dict[int, ir.Var] = {}
    for e in exprs:
        for part in walk(e):
            kind: Any = type(part)
            if kind is ir.Read:
                seen.setdefault(part.var.uid, part.var)  # type: ignore[union-attr]
            elif kind is ir.Elem or kind is ir.ArrayValue:
                seen.setdefault(part.array.var.uid, part.array.var)  # type: ignore[union-attr]
    return list(seen.values())


def _expressions(s: ir.Stmt) -> tuple[ir.Expr, ...]:
    """Every expression a statement evaluates itself, with all parts."""
    found: list[ir.Expr] = []
    for e in own_expressions(s):
        _parts(e, found)
    return tuple(found)


expressions = kept("_expressions", _expressions)


def target_type(target: ir.Target) -> ValueType:
    """Return the type of what is stored there."""
    match target:
        case ir.VarTarget(var):
            return var.type
        case ir.ElemTarget(array):
            return array.elem
        case ir.MemTarget(access):
            return access.view.elem
        case ir.ComponentTarget(of):
            return scalar_of(target_type(of))
    raise TypeError(type(target).__name__)


def window_indices(s: ir.Stmt) -> Iterator[ir.Expr]:
    """List the indices that choose the windows of local arrays that a statement takes as a whole."""
    for name, _ in holding(s, _ARRAYS):
        value = getattr(s, name)
        for given in value if isinstance(value, tuple) else (value,):
            array = given.array if isinstance(given, ir.ArrayValue) else given
            yield from array.at if isinstance(array, ir.ArrayRef) else ()


_ARRAYS = frozenset(("ArrayRef",))


WAYS_OUT = frozenset((ir.Break, ir.Continue, ir.Return))


def ways_out(body: ir.Body) -> list[ir.Stmt]:
    """Statements that leave this body's loop, or the function."""
    found: list[ir.Stmt] = []
    if not contains(body, WAYS_OUT):
        return found
    for s in body:
        if type(s) in WAYS_OUT:
            found.append(s)
        for inner in bodies(s):
            found += [w for w in ways_out(inner) if isinstance(w, ir.Return) or not isinstance(s, (ir.For, ir.While))]
    return found


def known_range(start: ir.Expr, stop: ir.Expr, step: ir.Expr) -> range | None:
    """Return the values of a loop with these bounds, where they are constants; None for a loop longer than Python can
    count.
    """
    match start, stop, step:
        case ir.Const(int(a)), ir.Const(int(b)), ir.Const(int(c)) if c and abs(b - a) < sys.maxsize:
            return range(a, b, c)
        case _:
            return None


def loop_values(s: ir.Stmt) -> range | None:
    """The values of a loop's variable, where they are known."""
    return known_range(s.start, s.stop, s.step) if isinstance(s, ir.For) else None
