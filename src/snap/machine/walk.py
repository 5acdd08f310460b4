"""What statements assign: the machine's addition to `snap.ir.walk`."""

from __future__ import annotations

from snap.ir import nodes as ir


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
