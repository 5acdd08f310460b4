"""What a loop does to variables, read off its text."""

from __future__ import annotations

from collections import Counter

from snap.ir import nodes as ir
from snap.ir.operations import COLLECTIVES
from snap.ir.walk import bodies, statements

MOST_STEP = 1 << 16  # beyond, an index may wrap


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
