"""Compute where the elements of an accumulator lie: `acc_row(j, warp)`, `acc_column(j, warpgroup)`.

Input: the tree of a call.  Output: a pure expression over the thread's number in its warp or warpgroup.  Invariant: it
is what PTX says of the accumulators of every `mma` (m16n8 and m8n8) and `wgmma` (m64nN); tests compare it with the
layouts by which the CPU machine multiplies.  Non-goals: the layouts of operands A and B.

Of the elements that a thread holds, each 4 lie in 8 columns: two neighbors in a row, and two in the row 8 below; the
next 4 lie in the next 8 columns.  The 16 rows of a warp follow each other in a warpgroup.
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.dispatch import calls
from snap._compiler.check.core.explain import read_down
from snap._compiler.check.core.lookups import level_of
from snap._compiler.check.core.scalars import scalar
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import I32, THREAD1, WARP1, WARPGROUP1
from snap.diag.span import Span
from snap.diag.wording import called

COLUMNS = 8  # that 4 elements of a thread lie in
ROWS = 16  # of a warp


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
    j = scalar(c, e.args[0], want)
    if not convert.is_integer(j):
        raise c.type_error(
            f"the number of an element is an integer, and this is `{j.type}`",
            e.args[0].span,
            help=f"cast it: `{called('int', e.args[0].span)}`",
        )
    if isinstance(j, ir.Const) and j.value < 0:
        raise c.type_error(
            f"elements are numbered from 0, and this is {j.value}",
            e.args[0].span,
            help="`acc_row(0, warpgroup)` is the row of `acc[0]`",
        )
    j = convert.cast(j, I32)
    return _row(j, group.n, e.span) if word == "acc_row" else _column(j, e.span)


def _row(j: ir.Expr, among: int, span: Span) -> ir.Expr:
    made = _of("/", ir.Lane(WARP, I32, span=span), 4)
    if among > WARP:
        warp = _of("/", ir.Lane(among, I32, span=span), WARP)
        made = convert.binary("+", _of("*", warp, ROWS), made, span)
    return convert.binary("+", made, _of("*", _of("%", _of("/", j, 2), 2), ROWS // 2), span)


def _column(j: ir.Expr, span: Span) -> ir.Expr:
    pair = convert.binary("+", _of("*", ir.Lane(4, I32, span=span), 2), _of("%", j, 2), span)
    return convert.binary("+", _of("*", _of("/", j, 4), COLUMNS), pair, span)


def _of(op: str, e: ir.Expr, n: int) -> ir.Expr:
    return convert.binary(op, e, ir.Const(n, I32, span=e.span), e.span)
