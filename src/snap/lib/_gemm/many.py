"""`snap.lib.gemm_batched` and `snap.lib.gemm_grouped`: several products of matrices in one launch, on the tensor cores.

Input:      f16 or bf16.  Batched: a of Z x M x K, b of Z x K x N.  Grouped: a of M x K, whose rows belong to groups one
            after another, as tokens that were sorted by expert; b of G x K x N, a matrix for each group; ends, G
            numbers where the arrays are: group g is the rows from ends[g - 1] to ends[g]
Output:     Z x M x N, or M x N, in the type of a or, where `out` is so, in f32; sums are f32
Invariant:  matrices, or their transposes, that lie one after another in rows and at an address of whole 16 bytes, are
            read where they lie; others are copied first.  The host never looks at `ends`: a recorded or captured call
            takes what stands there when it runs.  The same matrices give the same bits
Non-goals:  bias and activation; groups along k, of which the gradient of b is made (gemm_ragged); GPUs other than
            Hopper's

Rows of `a` behind the last end belong to nobody, and what stands in the result there is not written.  Ends that fall
are groups without rows; those beyond `a` end where it does.
"""

from __future__ import annotations

import functools
from typing import Any

from snap._compiler.ir.types import F32, I32
from snap.host.errors import LaunchError
from snap.lib._calls.arrays import Argument, argument, check_apart, check_sides, same_place
from snap.lib._calls.public_types import AnyArray, ArrayT
from snap.lib._calls.recorded import recorded
from snap.lib._gemm.arrays import check_depth, copy, floats_of, has_boxes, multiply, result_of, room_for_boxes
from snap.lib._gemm.arrays import columns as first_columns
from snap.lib._gemm.body import Work
from snap.lib._gemm.choice import BATCHES, EVEN, GROUPS, Plan, Product, best, candidates
from snap.lib._gemm.gemm import BAND, TYPES, GemmOperand, operand
from snap.lib._gemm.kernels import gemm_kernel
from snap.record import replace


@recorded
def gemm_batched(a: ArrayT, b: ArrayT, out: ArrayT | None = None) -> ArrayT:
    """Compute `a[z] @ b[z]` for every z. NumPy's uint16 holds bits of bf16."""
    left, right = _operands("gemm_batched", a, b, 3)
    (rows, depth), (other, columns) = left.shape, right.shape
    count = left.given.shape[0]
    if right.given.shape[0] != count:
        raise LaunchError("snap.lib.gemm_batched", f"holds {right.given.shape[0]} matrices, `a` {count}", "b")
    check_depth("gemm_batched", depth, other, columns)
    written = _result("gemm_batched", out, left, (count, rows, columns))
    if written.size:
        plan = planned(_product(left, right, count))
        _multiply("gemm_batched", Work.BATCH, plan, written, left, right, None, count)
    return written.array


@recorded
def gemm_grouped(a: ArrayT, b: ArrayT, ends: AnyArray, out: ArrayT | None = None) -> ArrayT:
    """Multiply rows ends[g - 1] to ends[g] of `a` by `b[g]`. NumPy's uint16 holds bits of bf16."""
    left, right = _operands("gemm_grouped", a, b, 2)
    (rows, depth), (other, columns) = left.shape, right.shape
    count = right.given.shape[0]
    check_depth("gemm_grouped", depth, other, columns)
    limits = group_ends("gemm_grouped", ends, left.given, count)
    written = _result("gemm_grouped", out, left, (rows, columns))
    if written.size and count:
        plan = planned(_product(left, right, count), True)
        _multiply("gemm_grouped", Work.GROUPS, plan, written, left, right, limits, count)
    return written.array


def _multiply(
    function: str,
    work: Work,
    plan: Plan,
    written: Argument,
    left: GemmOperand,
    right: GemmOperand,
    ends: Argument | None,
    count: int,
) -> None:
    (rows, depth), columns = left.shape, right.shape[1]
    if has_boxes(written):
        read = {"a": left.given if left.lies(False) else None, "b": right.given if right.lies(False) else None}
        check_apart(function, written, {**read, "ends": ends})
    A, B = left.ready(False), right.ready(False)
    C = written.array if has_boxes(written) else room_for_boxes(written, written.shape)
    if C is not written.array and work == Work.GROUPS:  # rows that belong to nobody stay as they are
        copy(written.info.family, first_columns(C, columns), written.array)
    sizes = plan.height, plan.width, plan.band(BAND)
    kinds = left.given.type, written.type, left.turned, right.turned, *sizes
    run = gemm_kernel(*kinds, work=Work.DIVIDED_BATCH if plan.divided else work)
    told = None if ends is None else ends.array
    multiply(run, plan, left.given, A, B, C, (rows, columns, depth), ends=told, count=count)
    if C is not written.array:
        copy(written.info.family, written.array, first_columns(C, columns))


@functools.lru_cache(4096)
def planned(product: Product, grouped: bool = False, whole: bool = False) -> Plan:
    """grouped: the product has the rows of all groups; nobody knows how large these are, so the plan is made for equal
    ones.  whole: no tile is divided.
    """
    own = -(-product.rows // product.count) if grouped else product.rows
    plan = best(candidates(GROUPS if grouped or whole else BATCHES, replace(product, rows=own)))
    most = (product.rows // plan.height + product.count) * -(-product.columns // plan.width)
    return Plan(plan.cycles, plan.height, plan.width, min(product.multiprocessors, most)) if grouped else plan


def _product(left: GemmOperand, right: GemmOperand, count: int) -> Product:
    (rows, depth), columns = left.shape, right.shape[1]
    return Product(rows, columns, depth, left.given.multiprocessors(), EVEN, EVEN, right.turned, count)


# ---- arrays ---------------------------------------------------------------------------------------------------------


def _operands(function: str, a: object, b: object, rank: int) -> tuple[GemmOperand, GemmOperand]:
    # Groups begin at any row, and a box at a multiple of 16 bytes in its row: rows of groups lie along k.
    left = GemmOperand(floats_of(function, "a", a, TYPES, 2), False) if rank == 2 else operand("a", a, function, rank)
    right = operand("b", b, function, 3)
    for name, given in (("a", left.given), ("b", right.given)):
        check_sides(function, name, given)
    same_place(function, left.given, "b", right.given)
    if left.given.type != right.given.type:
        raise LaunchError(f"snap.lib.{function}", f"holds {right.given.type}, `a` {left.given.type}", "b")
    return left, right


def group_ends(function: str, value: object, left: Argument, count: int) -> Argument:
    given = argument(function, "ends", value, (I32,), rank=1)
    same_place(function, left, "ends", given)
    if given.shape != (count,):
        raise LaunchError(f"snap.lib.{function}", f"has {given.size} numbers, and `b` {count} matrices", "ends")
    return given


def _result(function: str, out: Any, left: GemmOperand, shape: tuple[int, ...]) -> Argument:
    room = left.given.new(shape) if out is None else out
    return result_of(function, room, left.given, (left.given.type, F32), shape)
