"""Walking the IR: parts of expressions, expressions and bodies of statements, what statements assign and touch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from snap.ir import nodes as ir


def children(e: ir.Expr) -> tuple[ir.Expr, ...]:
    match e:
        case ir.Const() | ir.Read() | ir.UnitId() | ir.UnitCount() | ir.ArrayValue():
            return ()
        case ir.Elem():
            return e.index
        case ir.Load():
            return e.access.index
        case ir.Component() | ir.Unary() | ir.Cast() | ir.Bitcast():
            return (e.value,)
        case ir.MakeVector():
            return e.items
        case ir.Binary() | ir.Compare() | ir.Logical():
            return (e.left, e.right)
        case ir.Select():
            return (e.cond, e.then, e.other)
        case ir.Math():
            return e.args
        case _:
            raise TypeError(f"unknown expression {type(e).__name__}")


def parts(e: ir.Expr) -> Iterator[ir.Expr]:
    yield e
    for child in children(e):
        yield from parts(child)


def target_exprs(t: ir.Target | None) -> tuple[ir.Expr, ...]:
    match t:
        case None | ir.VarTarget():
            return ()
        case ir.ElemTarget():
            return t.index
        case ir.MemTarget():
            return t.access.index
        case ir.ComponentTarget():
            return target_exprs(t.of)
        case _:
            raise TypeError(f"unknown target {type(t).__name__}")


def target_var(t: ir.Target | None) -> ir.Var | None:
    match t:
        case ir.VarTarget():
            return t.var
        case ir.ElemTarget():
            return t.array.var
        case ir.ComponentTarget():
            return target_var(t.of)
        case _:
            return None


def exprs(s: ir.Stmt) -> tuple[ir.Expr, ...]:
    """The expressions of the statement itself, not of the bodies in it."""
    match s:
        case ir.Declare():
            return () if s.init is None else (s.init,)
        case ir.Assign():
            return (s.value, *target_exprs(s.target))
        case ir.If() | ir.While() | ir.Assert():
            return (s.cond,)
        case ir.For():
            return (s.start, s.stop, s.step)
        case ir.Return():
            return () if s.value is None else (s.value,)
        case ir.Collective():
            return (*s.args, *(i for a in s.accesses for i in a.index), *(i for t in s.targets for i in target_exprs(t)))
        case ir.Atomic():
            return (*s.args, *s.access.index, *target_exprs(s.target))
        case ir.Unsafe():
            return (*(v for _, v in s.values), *(i for _, a in s.memory for i in a.index), *target_exprs(s.target))
        case ir.Call():
            return (*(a for a in s.args if not isinstance(a, (ir.ArrayRef, ir.MemView))), *target_exprs(s.target))
        case ir.DeclareShared() | ir.Break() | ir.Continue() | ir.Group() | ir.Split() | ir.Partition() | ir.Claim() | ir.Sync():
            return ()
        case _:
            raise TypeError(f"unknown statement {type(s).__name__}")


def bodies(s: ir.Stmt) -> tuple[ir.Body, ...]:
    match s:
        case ir.If():
            return (s.then, s.other)
        case ir.While():
            return (s.pre, s.body)
        case ir.For() | ir.Group() | ir.Partition() | ir.Claim():
            return (s.body,)
        case ir.Split():
            return tuple(case.body for case in s.cases)
        case _:
            return ()


def statements(body: Iterable[ir.Stmt]) -> Iterator[ir.Stmt]:
    for s in body:
        yield s
        for inner in bodies(s):
            yield from statements(inner)


def accesses(s: ir.Stmt) -> Iterator[tuple[ir.MemAccess, bool]]:
    """Memory accesses of the statement itself, with whether they write."""
    for e in exprs(s):
        for part in parts(e):
            if isinstance(part, ir.Load):
                yield part.access, False
    match s:
        case ir.Assign() | ir.Collective() | ir.Atomic() | ir.Unsafe() | ir.Call():
            for t in s.targets if isinstance(s, ir.Collective) else (s.target,):
                while isinstance(t, ir.ComponentTarget):
                    t = t.of
                if isinstance(t, ir.MemTarget):
                    yield t.access, True
    match s:
        case ir.Atomic():
            yield s.access, True
        case ir.Collective():
            for a in s.accesses:
                yield a, s.op == "stmatrix"
        case ir.Unsafe():
            for _, a in s.memory:
                yield a, not a.handle.const


def assigned(s: ir.Stmt) -> tuple[ir.Var, ...]:
    """Variables the statement itself gives a value."""
    match s:
        case ir.Declare() | ir.For():
            return (s.var,)
        case ir.Assign() | ir.Atomic() | ir.Unsafe():
            found = (target_var(s.target),)
        case ir.Collective():
            found = tuple(map(target_var, s.targets))
        case ir.Call():
            found = (target_var(s.target), *(a.var for a in s.args if isinstance(a, ir.ArrayRef)))
        case _:
            found = ()
    return tuple(v for v in found if v is not None)
