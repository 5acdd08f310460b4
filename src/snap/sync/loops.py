"""What a loop does to variables, read off its text."""

from __future__ import annotations

from collections import Counter

from snap.ir import nodes as ir
from snap.ir.operations import COLLECTIVES
from snap.ir.walk import bodies, statements, variables

MOST_STEP = 1 << 16  # beyond, an index may wrap
MOST_TURNS = 8  # of a loop whose iterations are looked at one by one


def assigned(s: ir.While | ir.For) -> set[int]:
    return {uid for body in bodies(s) for inner in statements(body) for uid in targets(inner)}


def growing(s: ir.While | ir.For) -> dict[int, int]:
    """Variables that every iteration increases once, by a constant, and not so fast that they wrap soon: uid -> constant."""
    every = list(statements(s.body))
    if any(isinstance(inner, ir.Continue) for inner in every):
        return {}
    written = Counter(uid for inner in every for uid in targets(inner))
    found: dict[int, int] = {}
    pending = list(s.body)
    while pending:
        match pending.pop():
            case ir.Group(body=inner) | ir.Partition(body=inner) | ir.Claim(body=inner):
                pending += inner
            case ir.Assign(ir.VarTarget(var), ir.Binary("+", ir.Read(read), ir.Const(step))) if (
                read == var and written[var.uid] == 1 and abs(step) < MOST_STEP
            ):
                found[var.uid] = step
    return found


# Buffers that are taken in turn are told apart by the first index.
def copies_in_turn(s: ir.While | ir.For, growing: dict[int, int]) -> bool:
    """Whether iterations copy elements to a buffer that depends on which iteration it is."""
    inside = list(statements(s.body))
    if not any(isinstance(inner, ir.AsyncCopy) for inner in inside):
        return False
    depends = {*growing, *([s.var.uid] if isinstance(s, ir.For) else ())}
    for inner in inside:
        if isinstance(inner, ir.Declare) and inner.init is not None and _reads(inner.init, depends):
            depends.add(inner.var.uid)
    return any(isinstance(inner, ir.AsyncCopy) and len(inner.target.index) > 1 and _reads(inner.target.index[0], depends) for inner in inside)


def _reads(e: ir.Expr, uids: set[int]) -> bool:
    return any(v.uid in uids for v in variables(e))


def turns(s: ir.Stmt) -> range | None:
    """The values of a loop's variable, where they are known."""
    match s:
        case ir.For(start=ir.Const(a), stop=ir.Const(b), step=ir.Const(c)) if c:
            return range(a, b, c)
        case _:
            return None


def few(s: ir.Stmt) -> range | None:
    """The same, where there are few of them, but several."""
    values = turns(s)
    return values if values is not None and 2 <= len(values) <= MOST_TURNS else None


def targets(s: ir.Stmt) -> list[int]:
    """The variables a statement assigns."""
    match s:
        case ir.Assign(ir.VarTarget(var)):
            return [var.uid]
        case ir.Collective(targets=targets):
            return [t.var.uid for t in targets if isinstance(t, ir.VarTarget)]
        case ir.Atomic(target=ir.VarTarget(var)) | ir.Unsafe(target=ir.VarTarget(var)) | ir.Call(target=ir.VarTarget(var)):
            return [var.uid]
        case _:
            return []


def writes(body: ir.Body, known: dict[int, bool]) -> bool:
    """Whether something in there, calls included, writes memory or orders it; `known` keeps the answers."""
    found = known.get(id(body))
    if found is None:
        found = known[id(body)] = any(_writes(s, known) for s in statements(body))
    return found


def _writes(s: ir.Stmt, known: dict[int, bool]) -> bool:
    match s:
        case ir.Atomic() | ir.AsyncCopy() | ir.BoxCopy() | ir.Wgmma() | ir.StoreAcc() | ir.Unsafe() | ir.DeclareShared():
            return True
        case ir.Collective(op):
            return op == "stmatrix" or COLLECTIVES[op].barrier
        case ir.Assign(ir.MemTarget() | ir.ComponentTarget(ir.MemTarget())):
            return True
        case ir.Call(function):
            return writes(function.body, known)
        case _:
            return False
