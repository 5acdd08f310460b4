"""Keep operands, each with the value that it has when it is evaluated.

Expressions are pure: a call, an atomic or a collective inside one has become a statement before it.  So an operand that
was written before a call would be read after it.  Where the call may change what the operand reads, the operand is kept
in a temporary above the call; elsewhere the text stays as it was written.

Input: the operands, in the order in which Python evaluates them, and what evaluates one. Output: typed, pure
expressions. Non-goals: which operands are evaluated at all (`and`, `or`, `if-else`).  Invariant: what no effect can
change stays as it was written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from snap._compiler.check.core import convert
from snap._compiler.check.core.explain import read_down
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import assigned, passed, written
from snap._compiler.ir.operations import MemoryOrder
from snap._compiler.ir.types import I32, Array, Privilege, ValueType
from snap._compiler.ir.walk import statements, walk
from snap.diag.span import Span
from snap.record import replace

Operand = ir.Expr | ir.MemAccess | ir.Target | ir.ArrayRef | ir.MemView
Passed = ir.Expr | ir.ArrayRef | ir.MemView  # of a call
One = TypeVar("One", ir.Expr, ir.MemAccess, ir.Target, ir.ArrayRef, ir.MemView, Passed, Operand)
Item = TypeVar("Item")


def in_order(c: Checker, privilege: Privilege, evaluate: Callable[[Item], One], items: Iterable[Item]) -> list[One]:
    """The operands of one operation, evaluated for a privilege."""
    values: list[One] = []
    for item in items:
        mark = len(c.out)
        value = evaluate(item)
        if values and len(c.out) > mark:
            values = kept(c, mark, *((v, privilege) for v in values))
        values.append(value)
    return values


def kept(c: Checker, mark: int, *operands: tuple[One, Privilege]) -> list[One]:
    """Operands that were evaluated when `c.out` ended at `mark`, each with the privilege that it is evaluated for."""
    effects = c.out[mark:]
    if not effects:
        return [value for value, _ in operands]
    made: list[ir.Stmt] = []
    values = [_kept(c, value, privilege, effects, made) for value, privilege in operands]
    c.out[mark:mark] = made
    return values


def across(c: Checker, value: One, privilege: Privilege, effects: list[ir.Stmt]) -> One:
    """An operand that was evaluated just now, with the value it has before these statements, which are about to
    follow.
    """
    made: list[ir.Stmt] = []
    value = _kept(c, value, privilege, effects, made)
    c.out.extend(made)
    return value


def _kept(c: Checker, value: One, p: Privilege, effects: list[ir.Stmt], made: list[ir.Stmt]) -> One:
    part_kept = lambda part: _kept(c, part, p, effects, made)  # noqa: E731
    match value:
        case ir.ArrayRef() | ir.MemView() | ir.VarTarget():  # names for places; what lies there is another matter
            return value
        case ir.MemAccess():
            block = None if value.block is None else part_kept(value.block)
            return replace(value, index=tuple(map(part_kept, value.index)), block=block)
        case ir.MemTarget():
            return replace(value, access=part_kept(value.access))
        case ir.ElemTarget():
            return replace(value, index=tuple(map(part_kept, value.index)))
        case ir.ComponentTarget():
            return replace(value, of=part_kept(value.of))
    # Of numbers that have no type yet, what chooses is kept.
    if convert.is_weak(value) and not isinstance(value, ir.Const):
        parts = {name: getattr(value, name) for name in ("cond", "then", "other", "args") if hasattr(value, name)}
        return replace(
            value,
            **{
                name: tuple(map(part_kept, part)) if isinstance(part, tuple) else part_kept(part)
                for name, part in parts.items()
            },
        )
    if not any(may_change(c, s, part) for s in statements(tuple(effects)) for part in walk(value)):
        return value
    if isinstance(value, ir.ArrayValue):
        return _copied(c, value, p, made)
    var = c.temp("before", value.type, p, value.span)
    made.append(ir.Declare(var, value, span=value.span))
    return ir.Read(var, value.type, span=value.span)


def _copied(c: Checker, value: ir.ArrayValue, p: Privilege, made: list[ir.Stmt]) -> ir.ArrayValue:
    """A local array, or a window of one, element by element."""
    span, type = value.span, value.type
    var, each = c.temp("before", type, p, span), c.temp("each", I32, p, span)
    at = ir.Read(each, I32, span=span)
    target = ir.ElemTarget(ir.ArrayRef(var, type.elem, (type.size,)), (at,), span=span)
    move = ir.Assign(target, _element(value.array, at, span), span=span)
    zero, size, one = (ir.Const(n, I32, span=span) for n in (0, type.size, 1))
    made += [ir.Declare(var, None, zero=True, span=span), ir.For(each, zero, size, one, (move,), -1, span=span)]
    return ir.ArrayValue(ir.ArrayRef(var, type.elem, type.shape), Array(type.elem, type.shape), span=span)


def _element(array: ir.ArrayRef, number: ir.Expr, span: Span) -> ir.Elem:
    """Find the element with this number, row by row."""
    if not array.at:
        flat = ir.ArrayRef(array.var, array.elem, (math.prod(array.shape),))
        return ir.Elem(flat, (number,), array.elem, span=span)
    index: list[ir.Expr] = []
    for extent in reversed(array.shape[1:]):
        n = ir.Const(extent, I32, span=span)
        index.insert(0, ir.Binary("%", number, n, I32, span=span))
        number = ir.Binary("/", number, n, I32, span=span)
    return array.element((number, *index), span)


def never_written(c: Checker, handle: ir.Handle) -> bool:
    """A kernel's const memory; what a device function takes as const may be anything."""
    return handle.const and c.definition.kernel


# A call changes what it is given to write.  What hands memory to other threads, ordered atomics and unsafe text, lets
# them change all but const.
def may_change(c: Checker, s: ir.Stmt, part: ir.Expr) -> bool:
    """Decide whether a statement may change what this part of an expression reads: a variable, too, where a call has a
    record of which it is a field.
    """
    match part:
        case ir.Read(var):
            return var in assigned(s)
        case ir.Elem(array) | ir.ArrayValue(array):
            return array.var in assigned(s)
        case ir.Load(access):
            return not never_written(c, access.handle) and (_written(s, access.view.obj) or _publishes(s))
    return False


def _written(s: ir.Stmt, obj: ir.MemObject) -> bool:
    given = (view.obj for p, view, _ in passed(s) if not p.handle.const)
    return any(one.uid == obj.uid for one in (*given, *(a.view.obj for a in written(s))))


def _publishes(s: ir.Stmt) -> bool:
    match s:
        case ir.Call(function):
            return function.uses_unsafe or any(map(_publishes, statements(function.body)))
        case ir.Atomic():
            return s.order != MemoryOrder.RELAXED
    return isinstance(s, ir.Unsafe)


def result_for(
    c: Checker, name: str, shown: str, type: ValueType, p: Privilege, want: Want, span: Span, help: str = ""
) -> tuple[ir.VarTarget, ir.Read]:
    """Make the place where an operation delivers its result, which is at p, and the read of it, where it may be used
    so.
    """
    if not p.at_least(want.privilege):
        raise read_down(c, f"the result of `{shown}`", p, None, want, span, help)
    return c.result(name, type, p, span)
