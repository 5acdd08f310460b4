"""Walking over the typed IR: every statement, every expression, in the order of the text."""

from __future__ import annotations

from collections.abc import Iterator

from snap.ir import nodes as ir


def bodies(s: ir.Stmt) -> tuple[ir.Body, ...]:
    """The bodies directly inside a statement."""
    match s:
        case ir.If(_, then, other):
            return (then, other)
        case ir.While(pre, _, body):
            return (pre, body)
        case ir.For(body=body) | ir.Group(body=body) | ir.Partition(body=body) | ir.Claim(body=body):
            return (body,)
        case ir.Split(cases=cases):
            return tuple(case.body for case in cases)
        case _:
            return ()


def statements(body: ir.Body) -> Iterator[ir.Stmt]:
    """All statements below, outer ones first; calls are not entered."""
    for s in body:
        yield s
        for inner in bodies(s):
            yield from statements(inner)


def _target_expressions(t: ir.Target) -> tuple[ir.Expr, ...]:
    match t:
        case ir.VarTarget():
            return ()
        case ir.ElemTarget(_, index):
            return index
        case ir.MemTarget(access):
            return access.index
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
            return (*s.args, *(i for a in s.accesses for i in a.index), *(e for t in s.targets for e in _target_expressions(t)))
        case ir.Atomic():
            return (*s.access.index, *s.args, *(() if s.target is None else _target_expressions(s.target)))
        case ir.AsyncCopy(target, source):
            return (*target.index, *source.index)
        case ir.Unsafe():
            return (*(e for _, e in s.values), *(i for _, a in s.memory for i in a.index))
        case ir.Call():
            return tuple(a for a in s.args if not isinstance(a, (ir.ArrayRef, ir.MemView)))
        case ir.DeclareShared() | ir.Break() | ir.Continue() | ir.AsyncCommit() | ir.Group() | ir.Split() | ir.Partition() | ir.Claim() | ir.Sync():
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
            return e.access.index
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
