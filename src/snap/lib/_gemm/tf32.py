"""`snap.lib.gemm_tf32`: a product of f32 matrices on the tensor cores, which multiply with 10 bits after the point
(tf32) and add in f32.

Input:      a of M x K, b of K x N, both f32
Output:     a @ b of M x N.  Factors are rounded to tf32.  Where K is cut into slices the order of their sums, and so
            the last bits, may differ
Invariant:  the kernels read both operands in boxes: rows of whole 16 bytes, what lies outside of a matrix is read as
            zero and not written
Non-goals:  other GPUs than Hopper's

The instruction takes tiles that lie along k only.  So does b if it is the transpose of a row-major matrix (`w.T`).  A
row-major b goes through registers, from which the instruction takes its first operand: so it is b.T @ a.T that is
computed, and a tile is turned round as it leaves (kernels.py).
"""

from __future__ import annotations

import functools

from snap._compiler.ir.types import F32
from snap.lib._calls.arrays import Argument
from snap.lib._calls.public_types import ArrayT
from snap.lib._calls.recorded import recorded
from snap.lib._gemm.arrays import (
    LINE,
    SECTOR,
    flipped,
    has_boxes,
    in_boxes,
    in_rows,
    matrix,
    multiply,
    of_type,
    product_shape,
    room_for_boxes,
    row_major,
)
from snap.lib._gemm.arrays import columns as first_columns
from snap.lib._gemm.body import Work
from snap.lib._gemm.choice import (
    ALONG,
    LINES,
    PARTS_OF_LINES,
    PARTS_OF_SECTORS,
    THROUGH_REGISTERS,
    Plan,
    Product,
    best,
    candidates,
)
from snap.lib._gemm.kernels import gemm_kernel

BAND = 2048  # rows of a band, or columns where b goes through registers: blocks that run together share what they load


@recorded
def gemm_tf32(a: ArrayT, b: ArrayT) -> ArrayT:
    """Compute `a @ b` for f32 matrices, multiplied as tf32."""
    left, right = matrix("gemm_tf32", "a", a), matrix("gemm_tf32", "b", b)
    rows, columns = product_shape("gemm_tf32", left, right)
    depth = left.shape[1]
    if rows * columns * depth == 0:
        return left.new((rows, columns), zero=True)
    turned = flipped(right)
    lies_along = turned.info.contiguous
    A, B = (
        given if has_boxes(given) else in_boxes(given)
        for given in (in_rows(left), turned if lies_along else in_rows(right))
    )
    first, second, extents = (A, B, (rows, columns)) if lies_along else (B, A, (columns, rows))
    product = Product(*extents, depth, left.multiprocessors(), load_cost(first), load_cost(second))
    plan = planned(product, lies_along)
    new = left.new if columns % 4 == 0 else functools.partial(room_for_boxes, left)
    C = new((rows, columns), zero=plan.slices > 1)
    run = tf32_kernel(lies_along, plan.height, plan.width, plan.team, plan.slices > 1, plan.divided > 0)
    multiply(run, plan, left, first.array, second.array, C, (*extents, depth))
    return C if C.shape[1] == columns else row_major(of_type(left, first_columns(C, columns))).array


# ---- who computes what ----------------------------------------------------------------------------------------------


@functools.lru_cache(4096)
def planned(product: Product, lies_along: bool) -> Plan:
    """Plan the product that the kernel computes. lies_along: whether the operand of `rows` lies along k."""
    return best(candidates(ALONG if lies_along else THROUGH_REGISTERS, product))


@functools.cache
def tf32_kernel(lies_along, BM, BN, TEAM=1, ADDED=False, DIVIDED=False):
    """C = A @ B.T, of an A that lies along k; or C.T = A.T @ B.T of one that does not."""
    band = max(1, BAND // (TEAM * BM))
    work = Work.DIVIDED if DIVIDED else Work.ADDED if ADDED else Work.TILES
    return gemm_kernel(F32, F32, not lies_along, True, BM, BN, band, work=work, TEAM=TEAM)


def load_cost(given: Argument) -> float:
    row = given.shape[1] * given.type.bytes | given.info.pointer
    return LINES if row % LINE == 0 else PARTS_OF_LINES if row % SECTOR == 0 else PARTS_OF_SECTORS
