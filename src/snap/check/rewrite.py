"""Substitution in expressions.

Input and output: typed expressions.  Invariant: an expression in which nothing changes is returned as the same object.
"""

from __future__ import annotations

from collections.abc import Callable

from snap.check import convert
from snap.diag.span import Span
from snap.ir import nodes as ir
from snap.ir.walk import variables


def substitute(e: ir.Expr, replace: Callable[[ir.Var], ir.Expr | None]) -> ir.Expr:
    """Replace reads of variables; arithmetic whose operands became constants is folded again."""
    again = lambda part: substitute(part, replace)  # noqa: E731
    match e:
        case ir.Read(var):
            return replace(var) or e
        case ir.Const() | ir.UnitId() | ir.UnitCount() | ir.ArrayValue():
            return e
        case ir.Binary():
            left, right = again(e.left), again(e.right)
            if left is e.left and right is e.right:
                return e
            if e.exact:
                return convert.exactly(left, right.value, e.span)
            return convert.binary(e.op, left, right, e.span)  # types anew: a 64-bit index widens what it enters
        case ir.Unary():
            value = again(e.value)
            return e if value is e.value else convert.unary(e.op, value, e.span)
        case ir.Cast():
            value = again(e.value)
            return e if value is e.value else convert.cast(value, e.type, e.span)
        case ir.Bitcast():
            value = again(e.value)
            return e if value is e.value else ir.Bitcast(value, e.type, span=e.span)
        case ir.Compare():
            left, right = again(e.left), again(e.right)
            return e if left is e.left and right is e.right else convert.compare(e.op, left, right, e.span)
        case ir.Logical():
            left, right = again(e.left), again(e.right)
            return e if left is e.left and right is e.right else ir.Logical(e.op, left, right, e.type, span=e.span)
        case ir.Select():
            cond, then, other = again(e.cond), again(e.then), again(e.other)
            unchanged = cond is e.cond and then is e.then and other is e.other
            return e if unchanged else ir.Select(cond, then, other, e.type, span=e.span)
        case ir.Math():
            args = tuple(map(again, e.args))
            return e if all(a is b for a, b in zip(args, e.args)) else ir.Math(e.op, args, e.type, e.fast, span=e.span)
        case ir.Elem():
            index = tuple(map(again, e.index))
            return e if all(a is b for a, b in zip(index, e.index)) else ir.Elem(e.array, index, e.type, span=e.span)
        case ir.Component():
            value = again(e.value)
            return e if value is e.value else ir.Component(value, e.lane, e.type, span=e.span)
        case ir.MakeVector():
            items = tuple(map(again, e.items))
            return e if all(a is b for a, b in zip(items, e.items)) else ir.MakeVector(items, e.type, span=e.span)
        case ir.Load():
            index = tuple(map(again, e.access.index))
            block = None if e.access.block is None else again(e.access.block)
            if block is e.access.block and all(a is b for a, b in zip(index, e.access.index)):
                return e
            return ir.Load(
                ir.MemAccess(e.access.view, index, e.access.handle, block, span=e.access.span), e.type, span=e.span
            )
        case _:
            raise TypeError(type(e).__name__)


def placed(e: ir.Expr, span: Span) -> ir.Expr:
    """The same expression as if it stood there."""
    parts = {name: getattr(e, name) for name in e.__dataclass_fields__}
    return type(e)(**{name: _placed(part, span) for name, part in parts.items()} | {"span": span})


def _placed(part: object, span: Span) -> object:
    if isinstance(part, tuple):
        return tuple(_placed(item, span) for item in part)
    return placed(part, span) if isinstance(part, ir.Expr) else part


__all__ = ["placed", "substitute", "variables"]
