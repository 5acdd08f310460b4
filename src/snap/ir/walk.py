"""Walking over the typed IR: every statement, every expression, in the order of the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from snap.ir import nodes as ir
from snap.ir import synced

F = TypeVar("F", bound=synced.AnyFunction)


def bodies(s: ir.Stmt) -> tuple[ir.Body, ...]:
    """The bodies directly inside a statement."""
    found = _BODIES.get(type(s))
    return () if found is None else found(s)


# By class, since most statements have none, and are asked again and again.
_BODIES: dict[type, Callable[[Any], tuple[ir.Body, ...]]] = {
    ir.If: lambda s: (s.then, s.other),
    ir.While: lambda s: (s.pre, s.body),
    ir.Split: lambda s: tuple(case.body for case in s.cases),
    **dict.fromkeys((ir.For, ir.Group, ir.Partition, ir.Claim, ir.Turn, synced.Elect), lambda s: (s.body,)),
}


def statements(body: ir.Body) -> Iterator[ir.Stmt]:
    """All statements below, outer ones first; calls are not entered."""
    for s in body:
        yield s
        for inner in bodies(s):
            yield from statements(inner)


def callees(function: F) -> list[F]:
    """The function and all that it calls, each once."""
    found: dict[int, Any] = {id(function): function}
    todo: list[Any] = [function]
    while todo:
        for s in statements(todo.pop().body):
            if isinstance(s, ir.Call) and id(s.function) not in found:
                found[id(s.function)] = s.function
                todo.append(s.function)
    return list(found.values())


def access_expressions(*accesses: ir.MemAccess) -> tuple[ir.Expr, ...]:
    """What must be evaluated to find the elements."""
    return tuple(e for a in accesses for e in (*a.index, *(() if a.block is None else (a.block,))))


def _target_expressions(t: ir.Target) -> tuple[ir.Expr, ...]:
    match t:
        case ir.VarTarget():
            return ()
        case ir.ElemTarget(_, index):
            return index
        case ir.MemTarget(access):
            return access_expressions(access)
        case ir.ComponentTarget(of):
            return _target_expressions(of)
        case _:
            raise TypeError(type(t).__name__)


def own_expressions(s: ir.Stmt) -> tuple[ir.Expr, ...]:
    """The expressions a statement evaluates itself (not those of statements inside it)."""
    match s:
        case ir.Declare(_, init):
            return () if init is None else (init,)
        case ir.Assign(target, value):
            return (*_target_expressions(target), value)
        case ir.If(cond) | ir.While(_, cond) | ir.Assert(cond):
            return (cond,)
        case ir.For(_, start, stop, step):
            return (start, stop, step)
        case ir.Return(value):
            return () if value is None else (value,)
        case ir.Collective():
            return (*s.args, *access_expressions(*s.accesses), *(e for t in s.targets for e in _target_expressions(t)))
        case ir.Atomic():
            return (
                *access_expressions(s.access),
                *s.args,
                *(() if s.target is None else _target_expressions(s.target)),
            )
        case ir.AsyncCopy(target, source):
            return access_expressions(target, source)
        case ir.BoxCopy(_, tile, origin):
            return (*access_expressions(tile.access, origin), *(() if s.slot is None else (s.slot,)))
        case ir.Wgmma():
            tiles = (t.access for t in (s.a, s.b) if isinstance(t, ir.Tile))
            return (*access_expressions(*tiles), *(() if s.zero is None else (s.zero,)))
        case ir.StoreAcc(tile, _, first):
            return (*access_expressions(tile.access), first)
        case synced.BarrierWait(_, slot, phase):
            return (slot, phase)
        case synced.BarrierArrive(_, slot) | synced.BarrierExpect(_, slot):
            return (slot,)
        case ir.Partition(fill=fill):
            return () if fill is None else (fill,)
        case ir.Unsafe():
            return (*(e for _, e in s.values), *access_expressions(*(a for _, a in s.memory)))
        case ir.Call():
            return tuple(a for a in s.args if not isinstance(a, (ir.ArrayRef, ir.MemView)))
        case ir.DeclareShared() | ir.Break() | ir.Continue() | ir.Group() | ir.Split() | ir.Claim() | ir.Turn():
            return ()
        case synced.AsyncCommit() | synced.Sync() | synced.Elect():
            return ()
        case _:
            raise TypeError(type(s).__name__)


def children(e: ir.Expr) -> tuple[ir.Expr, ...]:
    match e:
        case ir.Const() | ir.Read() | ir.UnitId() | ir.UnitCount() | ir.ArrayValue():
            return ()
        case ir.Elem():
            return e.index
        case ir.Component() | ir.Unary() | ir.Cast() | ir.Bitcast():
            return (e.value,)
        case ir.MakeVector():
            return e.items
        case ir.Load():
            return access_expressions(e.access)
        case ir.Binary() | ir.Compare() | ir.Logical():
            return (e.left, e.right)
        case ir.Select():
            return (e.cond, e.then, e.other)
        case ir.Math():
            return e.args
        case _:
            raise TypeError(type(e).__name__)


def walk(e: ir.Expr) -> Iterator[ir.Expr]:
    yield e
    for child in children(e):
        yield from walk(child)


def variables(*exprs: ir.Expr) -> list[ir.Var]:
    """The variables read, each once, in order of appearance."""
    seen: dict[int, ir.Var] = {}
    for e in exprs:
        for part in walk(e):
            match part:
                case ir.Read(var):
                    seen.setdefault(var.uid, var)
                case ir.Elem(array) | ir.ArrayValue(array):
                    seen.setdefault(array.var.uid, array.var)
    return list(seen.values())


def expressions(s: ir.Stmt) -> Iterator[ir.Expr]:
    """Every expression a statement evaluates itself, with all parts."""
    for e in own_expressions(s):
        yield from walk(e)


def ways_out(body: ir.Body) -> list[ir.Stmt]:
    """Statements that leave this body's loop, or the function."""
    found: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, (ir.Break, ir.Continue, ir.Return)):
            found.append(s)
        for inner in bodies(s):
            found += [w for w in ways_out(inner) if isinstance(w, ir.Return) or not isinstance(s, (ir.For, ir.While))]
    return found
