"""What statements assign and touch: the machine's additions to `snap.ir.walk`."""

from __future__ import annotations

from collections.abc import Iterator

from snap.ir import nodes as ir
from snap.ir.walk import expressions


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


def accesses(s: ir.Stmt) -> Iterator[tuple[ir.MemAccess, bool]]:
    """Memory accesses of the statement itself, with whether they write."""
    for part in expressions(s):
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
        case ir.AsyncCopy(target, source):
            yield target, True
            yield source, False
        case ir.Collective():
            for a in s.accesses:
                yield a, s.op == "stmatrix"
        case ir.BoxCopy(op, tile, origin):
            yield tile.access, op == "load"
            yield origin, op != "load"
        case ir.Wgmma():
            for t in (s.a, s.b):
                if isinstance(t, ir.Tile):
                    yield t.access, False
        case ir.StoreAcc(tile):
            yield tile.access, True
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
        case ir.Wgmma():
            found = (s.acc.var,)
        case ir.Call():
            found = (target_var(s.target), *(a.var for a in s.args if isinstance(a, ir.ArrayRef)))
        case _:
            found = ()
    return tuple(v for v in found if v is not None)
