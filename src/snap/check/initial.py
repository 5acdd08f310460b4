"""First values of local arrays: `x: float[4] = [a, b, c, d]`, `x: float[8] = 1.0`, `x: float[4] = rows[k]`.

Input: the declaration of a local array.  Output: a `Declare`, and the loop that fills or copies, in `c.out`.
Invariant: values are evaluated before the array exists, from left to right, for the array's privilege.  Non-goals:
assignments to an array that exists: these are element by element.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap.check import convert
from snap.check.arithmetic import converted
from snap.check.bindings import Variable
from snap.check.explain import read_down
from snap.check.expressions import expression
from snap.check.operands import kept
from snap.check.state import Checker, Want
from snap.check.storage import LocalArray, storage
from snap.diag.span import Span
from snap.frontend import tree
from snap.ir import nodes as ir
from snap.ir.types import I32, Array


def declare_array(c: Checker, var: ir.Var, s: tree.Declare) -> None:
    want = Want(var.privilege, f"`{var.name}` is one value for `{var.privilege}`", s.name_span)
    try:
        made = [ir.Declare(var, None, zero=True, span=s.span)] if s.value is None else _first(c, var, s.value, want)
    finally:
        c.bind(s.name, Variable(var))
    c.out.extend(made)


def _first(c: Checker, var: ir.Var, e: tree.Expr, want: Want) -> list[ir.Stmt]:
    """The declaration with its first value."""
    type = var.type
    if isinstance(e, tree.Sequence):
        items = tuple(_elements(c, type, list(_listed(c, e, type.shape, type)), want))
        return [ir.Declare(var, ir.MakeVector(items, type, span=e.span), span=e.span)]
    array = storage(c, e) if isinstance(e, (tree.Name, tree.Subscript, tree.Call)) else None
    if isinstance(array, LocalArray):
        return _loop(c, var, _copied(c, var, array, e, want), e.span)
    value = converted(c, expression(c, e, want), type.elem, e.span, f"an element of `{var.name}`")
    if isinstance(value, ir.Const) and convert.same(value, 0):
        return [ir.Declare(var, None, zero=True, span=e.span)]
    if not isinstance(value, (ir.Const, ir.Read)):
        value = c.remembered("first", value, var.privilege)
    return _loop(c, var, lambda _: value, e.span)


# ---- lists ----------------------------------------------------------------------------------------------------------


def _listed(c: Checker, e: tree.Expr, shape: tuple[int, ...], type: Array) -> Iterator[tree.Expr]:
    """The elements of a list, row by row; every dimension has as many items as the array says."""
    if not shape:
        yield e
        return
    if not isinstance(e, tree.Sequence) or len(e.items) != shape[0]:
        given = f"{len(e.items)} item(s)" if isinstance(e, tree.Sequence) else "one value"
        raise c.type_error(
            f"a list for `{type}` has {shape[0]} items here, and this is {given}",
            e.span,
            help=f"`{_example(type.shape)}`, or one value for all elements",
        )
    for item in e.items:
        yield from _listed(c, item, shape[1:], type)


def _example(shape: tuple[int, ...]) -> str:
    inner = _example(shape[1:]) if len(shape) > 1 else "a"
    return f"[{', '.join([inner] * min(shape[0], 2))}{', ...' if shape[0] > 2 else ''}]"


def _elements(c: Checker, type: Array, items: list[tree.Expr], want: Want) -> list[ir.Expr]:
    values: list[ir.Expr] = []
    for item in items:
        mark = len(c.out)
        value = converted(c, expression(c, item, want), type.elem, item.span, "an element")
        values = [*kept(c, mark, *((v, want.privilege) for v in values)), value]
    return values


# ---- one value for all, and copies ----------------------------------------------------------------------------------


def _copied(c: Checker, var: ir.Var, array: LocalArray, e: tree.Expr, want: Want):
    """The element of another array that goes to each position, all of them in one dimension."""
    type, source = var.type, array.ref.var
    if (array.ref.elem, array.ref.shape) != (type.elem, type.shape):
        raise c.type_error(
            f"`{var.name}` is `{type}`, and this is `{Array(array.ref.elem, array.ref.shape)}`",
            e.span,
            help="an array is copied from one of the same type and shape; otherwise give its elements: `[a, b, c, d]`",
        )
    if not source.privilege.at_least(want.privilege):
        raise read_down(c, f"`{source.name}`", source.privilege, source.span, want, e.span)
    return lambda index: array.ref.element(index, e.span)


def _loop(c: Checker, var: ir.Var, value, span: Span) -> list[ir.Stmt]:
    """The declaration, and loops over all dimensions, unrolled, that give each element its value."""
    type, number = var.type, lambda n: ir.Const(n, I32, span=span)
    each = [c.temp("each", I32, var.privilege, span) for _ in type.shape]
    index = tuple(ir.Read(one, I32, span=span) for one in each)
    target = ir.ElemTarget(ir.ArrayRef(var, type.elem, type.shape), index, span=span)
    made: ir.Stmt = ir.Assign(target, value(index), span=span)
    for one, size in zip(reversed(each), reversed(type.shape)):
        made = ir.For(one, number(0), number(size), number(1), (made,), -1, span=span)
    return [ir.Declare(var, None, zero=True, span=span), made]
