"""Convert fragments: `p = fragment.to_A(acc)`, by which an accumulator becomes A of the next multiplication.

Input: the tree of the conversion, and the array that it is given to.  Output: loops over the elements, unrolled.
Invariant: each thread converts its own elements, which are those that A has in this thread.  Non-goals: other copies of
arrays (check/statements/initial.py, check/statements/wholes.py).
"""

from __future__ import annotations

import math

from snap._compiler.check.core import convert
from snap._compiler.check.core.explain import read_down
from snap._compiler.check.core.fragments import Fragment, FragmentRole
from snap._compiler.check.core.names import word_called
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.memory.storage import LocalArray, storage
from snap._compiler.check.operations.fragments import TO_A, to_a_lies_alike
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import F32, I32, Array, scalar_of
from snap.diag.error import Label
from snap.diag.span import Span


def converts(c: Checker, e: tree.Expr) -> bool:
    return word_called(c, e) == TO_A


def operand(c: Checker, e: tree.Expr, want: Want) -> LocalArray | None:
    """The local array, or window of one, that an expression is."""
    named = isinstance(e, (tree.Name, tree.Subscript, tree.Call)) or c.records and isinstance(e, tree.Attribute)
    array = storage(c, e) if named else None
    if not isinstance(array, LocalArray):
        return None
    source = array.ref.var
    if not source.privilege.at_least(want.privilege):
        raise read_down(c, f"`{source.name}`", source.privilege, source.span, want, e.span)
    return array


# T-Convert: x : fragment.C(f32[m, k]) or k / 8 of m x 8, a : fragment.A(t[m, k]), t is f16 or bf16
#     => G |- a = fragment.to_A(x) @ P
# The accumulator of one multiplication becomes A of the next, rounded: its elements lie in the same threads, in order.
def made_a(c: Checker, to: ir.ArrayRef, held: Fragment | None, e: tree.Expr, want: Want) -> ir.Stmt:
    """The conversion, as loops over the accumulator's elements."""
    assert isinstance(e, tree.Call)
    array = operand(c, e.args[0], want) if len(e.args) == 1 and not e.keywords else None
    given = array.fragment if array is not None else None
    if array is None or given is None or (given.role, given.elem) != (FragmentRole.C, F32):
        raise c.type_error(
            f"`{TO_A}` takes an accumulator of floats, `fragment.C(float[...])`",
            e.span,
            help="`p = fragment.to_A(acc)`; the elements of a plain array are given one by one,"
            " `p = [bf16(acc[i]) for i in range(n)]`",
        )
    span, matrix = e.span, (given.rows, given.columns * _neighbors(array.ref.shape))
    own = f"`{to.var.name}`"
    if held is None or held.role is not FragmentRole.A or not to_a_lies_alike(given, held):
        raise c.type_error(
            f"`{TO_A}` makes A of a 16-bit type that the same threads hold, and {own} is"
            f" `{held or Array(to.elem, to.shape)}`",
            span,
            secondary=(Label(to.var.span, "declared here"),),
            help=f"declare it `{to.var.name}: fragment.A(bf16[{matrix[0]}, {matrix[1] // 16 * 16 or 16}]) @ thread[1]`;"
            " for A of another type, take the elements through shared memory",
        )
    whole = (held.rows, held.columns * _neighbors(to.shape))
    if whole != matrix or to.shape[:-2] != array.ref.shape[:-2]:
        raise c.type_error(
            f"{array.spelled} is an accumulator of {matrix[0]} x {matrix[1]}, and {own} A of {whole[0]} x {whole[1]}",
            span,
            secondary=(Label(to.var.span, "declared here"),),
            help="accumulators beside each other are an array of them: `acc: fragment.C(float[16, 8])[2]` becomes"
            " `fragment.A(bf16[16, 16])`",
        )
    return _element_by_element(c, to, array.ref, (held.each, given.each), span)


def _neighbors(shape: tuple[int, ...]) -> int:
    """Count the fragments that are beside each other, in one row of matrices."""
    return shape[-2] if len(shape) > 1 else 1


def _element_by_element(c: Checker, to: ir.ArrayRef, given: ir.ArrayRef, sizes: tuple[int, int], span: Span) -> ir.Stmt:
    """Loops over rows of matrices, and over the elements of a row, which have one order in both arrays."""
    extents = (*given.shape[:-2], math.prod(given.shape[-2:]))
    each = [c.temp("each", I32, to.var.privilege, span) for _ in extents]
    *rows, k = (ir.Read(one, I32, span=span) for one in each)

    def at(ref: ir.ArrayRef, size: int) -> tuple[ir.Expr, ...]:
        if len(ref.shape) == 1:
            return (k,)
        of = ir.Const(size, I32, span=span)
        return (*rows, convert.binary("/", k, of, span), convert.binary("%", k, of, span))

    value = convert.cast(given.element(at(given, sizes[1]), span), scalar_of(to.elem))
    target = ir.ElemTarget(to.whole(), (*to.at, *at(to, sizes[0])), span=span)
    made: ir.Stmt = ir.Assign(target, value, span=span)
    for one, size in zip(reversed(each), reversed(extents)):
        start, stop, step = (ir.Const(n, I32, span=span) for n in (0, size, 1))
        made = ir.For(one, start, stop, step, (made,), -1, span=span)
    return made
