"""What the text tells about values: which keep their first one, and who agrees on them.

Input: typed expressions and the state.  Output: the first part of an expression that a group may disagree on.
Invariant: it errs on the safe side: a part that might differ.  Non-goals: what values are (analysis/text.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from snap.check.state import Frame, State
from snap.frontend import tree
from snap.ir import nodes as ir
from snap.ir.types import BLOCK1, CLUSTER1, Level, Privilege


def note_value(c: State, var: ir.Var, value: ir.Expr | None) -> None:
    """Remember what is known of a new variable, if it keeps its first value."""
    if value is None or not getattr(value.type, "is_integer", False) or var.name in c.assigned:
        return
    if isinstance(value, ir.UnitId) and value.target == BLOCK1 and value.place.privilege == CLUSTER1:
        c.own_ranks.add(var.uid)
    c.declared[var.uid] = (value,)


def differs(c: State, p: Privilege, *exprs: ir.Expr) -> ir.Expr | None:
    """The first part of the expressions on which threads of one unit of p may disagree; a loop's variable is as good as
    its bounds.
    """
    from snap.ir.walk import children

    for e in exprs:
        match e:
            case ir.Read(var):
                if not var.privilege.at_least(p) and (
                    var.uid not in c.ranges or differs(c, p, *c.ranges[var.uid]) is not None
                ):
                    return e
            case ir.Elem(array) | ir.ArrayValue(array) if not array.var.privilege.at_least(p):
                return e
            case ir.Load(access) if not access.handle.privilege.at_least(p) or _own(access) and p.level > Level.BLOCK:
                return e
            case ir.UnitId(target) if not target.at_least(p):
                return e
            case _:
                found = differs(c, p, *children(e))
                if found is not None:
                    return found
    return None


def _own(access: ir.MemAccess) -> bool:
    """Whether each block reads its own part."""
    return access.view.obj.spread == "across" and access.block is None


def decided_below(c: State, p: Privilege, frames: list[Frame]) -> tuple[Frame, ir.Expr | None] | None:
    """The first loop or `if` of the frames that units of p may go through differently, and what decides it (None: a
    `break` or `continue`).
    """
    for frame in frames:
        if frame.kind not in ("if", "loop"):
            continue
        found = differs(c, p, *frame.decides)
        if found is not None:
            return frame, found
        if frame.left_early and not frame.place.privilege.at_least(p):
            return frame, None
    return None


def leaves_early(body: tree.Body) -> bool:
    """Whether a loop with this body can be left, or its turn cut short, before it ends."""
    for s in body:
        match s:
            case tree.Break() | tree.Continue():
                return True
            case tree.If(_, then, other) if leaves_early(then) or leaves_early(other):
                return True
            case tree.With(tree.Call(tree.Name("group" | "turn"))):  # which nothing may leave (SNAP007)
                continue
            case tree.With(body=inner) if leaves_early(inner):
                return True
    return False


def assigned_names(statements: tree.Body) -> Iterator[str]:
    """The variables that these statements may give a value, or a part of one."""
    for s in statements:
        match s:
            case tree.Assign(target) | tree.Augment(target):
                yield from _root(target)
            case tree.Evaluate(tree.Call(keywords=keywords)):  # `intrinsic.mma(..., out=[x, y])`
                for _, value in keywords:
                    for item in value.items if isinstance(value, tree.Sequence) else (value,):
                        yield from _root(item)
            case tree.If(_, then, other):
                yield from assigned_names(then)
                yield from assigned_names(other)
            case tree.While(body=inner) | tree.For(body=inner) | tree.With(body=inner):
                yield from assigned_names(inner)
            case tree.Match(cases=cases):
                for case in cases:
                    yield from assigned_names(case.body)


def _root(e: tree.Expr) -> Iterator[str]:
    while isinstance(e, (tree.Attribute, tree.Subscript)):
        e = e.value
    if isinstance(e, tree.Name):
        yield e.id
