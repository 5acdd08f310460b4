"""Give local arrays their first values: `x: float[4] = [a, b, c, d]`, `x: float[8] = 1.0`, `x: float[4] = rows[k]`.

Input: the declaration of a local array.  Output: a `Declare`, and the loop that fills or copies, in `c.out`.
Invariant: values are evaluated before the array exists, from left to right, for the array's privilege.  Non-goals:
arrays that exist, and lists that a comprehension makes (check/statements/wholes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Variable
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.fragments import Fragment
from snap._compiler.check.core.operands import kept
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.operations.arithmetic import converted
from snap._compiler.check.operations.fragments import agree
from snap._compiler.check.statements.conversions import converts, made_a, operand
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32, Array
from snap.diag.span import Span
from snap.diag.wording import counted


# T-Alloc: G |- e : t @ p for each element => G |- x: t[n] @ p = e
def declare_array(c: Checker, var: ir.Var, type: Array, s: tree.Declare, held: Fragment | None = None) -> None:
    want = Want(var.privilege, f"`{var.name}` is one value for `{var.privilege}`", s.name_span)
    try:
        made = _first(c, var, type, s.value, want, held) if s.value else [ir.Declare(var, None, zero=True, span=s.span)]
    finally:
        c.bind(s.name, Variable(var, fragment=held))
    c.out.extend(made)


def _first(c: Checker, var: ir.Var, type: Array, e: tree.Expr, want: Want, held: Fragment | None) -> list[ir.Stmt]:
    """The declaration with its first value."""
    if isinstance(e, tree.Sequence):
        return [declared_list(c, var, type, e, want)]
    whole = ir.ArrayRef(var, type.elem, type.shape)
    if converts(c, e):
        return [ir.Declare(var, None, zero=True, span=e.span), made_a(c, whole, held, e, want)]
    value = element_value(c, whole, e, want, held)
    if isinstance(value, ir.Const) and convert.same(value, 0):
        return [ir.Declare(var, None, zero=True, span=e.span)]
    return [ir.Declare(var, None, zero=True, span=e.span), each_element(c, whole, value, e.span)]


def declared_list(c: Checker, var: ir.Var, type: Array, e: tree.Sequence, want: Want) -> ir.Declare:
    items = tuple(_elements(c, type, list(_listed(c, e, type.shape, type)), want))
    return ir.Declare(var, ir.MakeVector(items, type, span=e.span), span=e.span)


# ---- lists ----------------------------------------------------------------------------------------------------------


def _listed(c: Checker, e: tree.Expr, shape: tuple[int, ...], type: Array) -> Iterator[tree.Expr]:
    """The elements of a list, row by row; every dimension has as many items as the array says."""
    if not shape:
        yield e
        return
    if not isinstance(e, tree.Sequence) or len(e.items) != shape[0]:
        given = counted(len(e.items), "item") if isinstance(e, tree.Sequence) else "one value"
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


def element_value(
    c: Checker, to: ir.ArrayRef, e: tree.Expr, want: Want, held: Fragment | None
) -> ir.ArrayRef | ir.Expr:
    """Evaluate what the elements of an array are given: those of another one, or one value, evaluated once."""
    array = operand(c, e, want)
    if array is not None:
        agree(c, held, f"`{to.var.name}`", array, e.span)
        own, given = Array(to.elem, to.shape), Array(array.ref.elem, array.ref.shape)
        if own != given:
            raise c.type_error(
                f"`{to.var.name}` is `{own}`, and this is `{given}`",
                e.span,
                help="an array is copied from one of the same type and shape; otherwise give its elements: "
                "`[a, b, c, d]`, `[f(i) for i in range(4)]`",
            )
        return array.ref
    return once(c, converted(c, expression(c, e, want), to.elem, e.span, f"an element of `{to.var.name}`"), want)


def once(c: Checker, value: ir.Expr, want: Want) -> ir.Expr:
    return value if isinstance(value, (ir.Const, ir.Read)) else c.remembered("first", value, want.privilege)


def each_element(
    c: Checker,
    to: ir.ArrayRef,
    value: ir.ArrayRef | ir.Expr,
    span: Span,
    combined: Callable[[ir.Expr, ir.Expr], ir.Expr] = lambda _, given: given,
) -> ir.Stmt:
    """Loops over all dimensions, unrolled, that give each element its value, the element of another array or one for
    all.  combined: with what it holds.
    """
    number = lambda n: ir.Const(n, I32, span=span)  # noqa: E731
    each = [c.temp("each", I32, to.var.privilege, span) for _ in to.shape]
    index = tuple(ir.Read(one, I32, span=span) for one in each)
    given = value.element(index, span) if isinstance(value, ir.ArrayRef) else value
    target = ir.ElemTarget(to.whole(), (*to.at, *index), span=span)
    made: ir.Stmt = ir.Assign(target, combined(to.element(index, span), given), span=span)
    for one, size in zip(reversed(each), reversed(to.shape)):
        made = ir.For(one, number(0), number(size), number(1), (made,), -1, span=span)
    return made
