"""Check what is asked of fragments: that an operand has the role it is given in, that two of them agree, and where
their elements lie: `fragment.row(a, j)`, `fragment.column(a, j)`, `acc_row(j, warp)`, `acc_column(j, warpgroup)`.

Input: local arrays, or the tree of a call.  Output: nothing, or a pure expression over the thread's number in its warp
or warpgroup.  Invariant: a place is what PTX says of the operands of every `mma` and `wgmma`; tests compare it with the
layouts by which the CPU machine multiplies.  Non-goals: which fragments there are (check/core/fragments.py, which says
how their elements lie).

Of the elements of an accumulator that a thread holds, each 4 lie in 8 columns: two neighbors in a row, and two in the
row 8 below; the next 4 lie in the next 8 columns.  The 16 rows of a warp follow each other in a warpgroup.
"""

from __future__ import annotations

import math

from snap._compiler.check.core import convert
from snap._compiler.check.core.dispatch import calls
from snap._compiler.check.core.explain import read_down
from snap._compiler.check.core.fragments import Fragment, FragmentRole, choices
from snap._compiler.check.core.lookups import level_of
from snap._compiler.check.core.scalars import scalar
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.memory.storage import LocalArray, storage
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import I32, THREAD1, WARP1, WARPGROUP1, Array, Privilege
from snap.diag.error import Label
from snap.diag.span import Span
from snap.diag.wording import called

ROWS = 16  # of a warp
LINES = 8  # rows, or columns, that the lanes of a warp hold four by four
ACCUMULATED = 2  # neighbors of a row that a thread holds of an accumulator


# T-Operand: x : fragment.r(t[m, n]), m x n is what the instruction takes => x may be operand r
# A plain array may be any operand: its registers are what the program says they are.
def as_operand(c: Checker, array: LocalArray, role: FragmentRole, group: Privilege, op: str) -> Fragment | None:
    """Return what an operand is declared to hold, which is the role it is given in; None of a plain array."""
    held = array.fragment
    if held is None:
        return None
    labels = (Label(array.ref.var.span, f"declared `{held}`"),)
    if held.role is not role:
        convert = f": `p = {TO_A}({array.ref.var.name})`" if (held.role, role) == CONVERTED else ""
        raise c.type_error(
            f"`{op}` takes {role.operand} here, and {array.spelled} is {held.role.operand}",
            array.span,
            secondary=labels,
            help=f"an accumulator becomes A of the next one by a conversion{convert}"
            if convert
            else FORMS.get(op, f"declare what is given here `fragment.{role}(...)`"),
        )
    if held.group != group:
        raise c.type_error(
            f"`{op}` is executed by a {group.unit}, and {array.spelled} is a fragment of a matrix that a"
            f" {held.group.unit} holds",
            array.span,
            secondary=labels,
            help=f"`{op}` takes {choices(role, held.elem, group)}",
        )
    if math.prod(array.ref.shape) != held.each:
        raise c.type_error(
            f"`{op}` takes one fragment, and {array.spelled} holds {math.prod(array.ref.shape) // held.each}",
            array.span,
            secondary=labels,
            help=f"choose one: `{array.ref.var.name}[{', '.join('0' * len(array.ref.var.type.shape[:-1]))}]`"
            if isinstance(array.ref.var.type, Array)
            else "",
        )
    return held


CONVERTED = (FragmentRole.C, FragmentRole.A)
TO_A = "fragment.to_A"
FORMS = {"mma": "`intrinsic.mma(A, B, C, out=D)`, where C and D are accumulators", "wgmma": "`wgmma(C, A, B)`"}


# T-Same-Fragment: x : fragment.r(t[m, n]), y : fragment.r(t[m, n]), or x or y is a plain array => x may be given y
# Element k of one lies elsewhere in its matrix than element k of another.
def agree(c: Checker, wanted: Fragment | None, name: str, array: LocalArray, span: Span) -> None:
    held = array.fragment
    if wanted is None or held is None or wanted == held:
        return
    by_name = (held.role, wanted.role) == CONVERTED and to_a_lies_alike(held, wanted)
    raise c.type_error(
        f"{name} is `{wanted}`, {wanted.role.operand}, and {array.spelled} is `{held}`, {held.role.operand}",
        span,
        secondary=(Label(array.ref.var.span, "declared here"),),
        note="" if by_name else "their elements lie in other threads",
        help=f"convert it by name: `{TO_A}({array.ref.var.name})`"
        if by_name
        else "give it elements one by one, or take it through shared memory",
    )


def to_a_lies_alike(given: Fragment, to: Fragment) -> bool:
    """Decide whether an accumulator's elements lie in the threads that hold A's, in order."""
    return to.packed == given.packed and to.group == given.group


@calls("acc_row", "acc_column")
def _accumulator_place(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr:
    example = f"`{word}(j, warp)` for `mma`, `{word}(j, warpgroup)` for `wgmma`"
    if len(e.args) != 2 or e.keywords:
        raise c.type_error(f"`{word}` takes the number of an element, and who multiplies", e.span, help=example)
    group = level_of(c, e.args[1], word)
    if group not in (WARP1, WARPGROUP1):
        raise c.type_error(
            f"accumulators belong to a warp or a warpgroup, not to `{group}`", e.args[1].span, help=example
        )
    if want.privilege != THREAD1:
        raise read_down(c, f"the result of `{word}`", THREAD1, None, want, e.span)
    j = _number(c, e.args[0], want, "`acc_row(0, warpgroup)` is the row of `acc[0]`")
    return _line(j, ACCUMULATED, group.n, e.span) if word == "acc_row" else _along(j, ACCUMULATED, 2, e.span)


@calls("fragment")
def _fragment_word(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr:
    if word not in ("fragment.row", "fragment.column"):
        raise c.type_error(
            f"`{word}` is not a value here",
            e.span,
            help=f"it is all that an array is given: `p = {TO_A}(acc)`"
            if word == TO_A
            else "it is the type of a local array: `a: fragment.A(bf16[16, 16]) @ thread[1]`"
            if word[-1] in tuple(FragmentRole)
            else "`fragment` has the types A, B and C, and the words row, column and to_A",
        )
    found = storage(c, e.args[0]) if len(e.args) == 2 and not e.keywords else None
    held = found.fragment if isinstance(found, LocalArray) else None
    if held is None:
        raise c.type_error(
            f"`{word}` takes a fragment, and the number of an element",
            e.span,
            help=f"`{word}(a, j)`, where `a: fragment.A(bf16[16, 16]) @ thread[1]`; of a plain accumulator"
            f" `acc_{word.partition('.')[2]}(j, warp)`",
        )
    if want.privilege != THREAD1:
        raise read_down(c, f"the result of `{word}`", THREAD1, None, want, e.span)
    j = _number(c, e.args[1], want, f"`{word}(a, 0)` is where `a[0]` lies")
    if isinstance(j, ir.Const) and j.value >= held.each:
        raise c.type_error(
            f"a thread holds {held.each} elements of `{held}`, and this is number {j.value}",
            e.args[1].span,
            help=f"they are numbered from 0 to {held.each - 1}",
        )
    along_rows = held.role is not FragmentRole.B
    if (word == "fragment.row") == along_rows:
        return _line(j, held.packed, held.group.n, e.span) if along_rows else _line(None, 1, WARP, e.span)
    return _along(j, held.packed, 2 if along_rows else 1, e.span)


def _number(c: Checker, e: tree.Expr, want: Want, first: str) -> ir.Expr:
    """The number of an element."""
    j = scalar(c, e, want)
    if not convert.is_integer(j):
        raise c.type_error(
            f"the number of an element is an integer, and this is `{j.type}`",
            e.span,
            help=f"cast it: `{called('int', e.span)}`",
        )
    if isinstance(j, ir.Const) and j.value < 0:
        raise c.type_error(f"elements are numbered from 0, and this is {j.value}", e.span, help=first)
    return convert.cast(j, I32)


def _line(j: ir.Expr | None, packed: int, among: int, span: Span) -> ir.Expr:
    """The line that an element lies on: a row of A or C, a column of B, of which a thread has one."""
    made = _of("/", ir.Lane(WARP, I32, span=span), 4)
    if among > WARP:
        warp = _of("/", ir.Lane(among, I32, span=span), WARP)
        made = convert.binary("+", _of("*", warp, ROWS), made, span)
    if j is None:
        return made
    return convert.binary("+", made, _of("*", _of("%", _of("/", j, packed), 2), LINES), span)


def _along(j: ir.Expr, packed: int, lines: int, span: Span) -> ir.Expr:
    """Compute where on its line an element lies.  lines: how many of them a thread has."""
    first = _of("*", ir.Lane(4, I32, span=span), packed)
    neighbor = convert.binary("+", first, _of("%", j, packed), span)
    return convert.binary("+", _of("*", _of("/", j, lines * packed), 4 * packed), neighbor, span)


def of_lane(op: str, n: int, span: Span, below: int = WARP) -> ir.Expr:
    """The number of the thread in its warp, divided by n; and the remainder of that by `below`."""
    made = _of(op, ir.Lane(WARP, I32, span=span), n)
    return made if below >= WARP // n or op == "%" else _of("%", made, below)


def _of(op: str, e: ir.Expr, n: int) -> ir.Expr:
    return convert.binary(op, e, ir.Const(n, I32, span=e.span), e.span)
