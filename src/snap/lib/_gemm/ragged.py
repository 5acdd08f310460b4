"""The gradients of `snap.lib.gemm_grouped`: by rows, and by matrices, whose products have groups along k.

Input:      the gradient of a grouped product, its two arrays, its ends, which of the gradients are wanted
Output:     (gradient of a, gradient of b), None where it is not wanted.  Rows of `a` that belong to no group have the
            gradient zero, and so has a matrix whose group has no rows
Invariant:  nothing looks at `ends` but what runs where they are.  Rows of whole 16 bytes are read where they lie
Non-goals:  second derivatives
"""

from __future__ import annotations

from typing import Any

from snap.lib._calls.arrays import check_readable
from snap.lib._calls.recorded import launch, recorded
from snap.lib._gemm.arrays import columns as first_columns
from snap.lib._gemm.arrays import copy, floats_of, has_boxes, in_boxes, of_type, room_for_boxes, turned_array
from snap.lib._gemm.choice import EVEN, Product
from snap.lib._gemm.gemm import BAND, TYPES
from snap.lib._gemm.many import gemm_grouped, group_ends, planned
from snap.lib._gemm.ragged_kernel import ragged_kernel


@recorded
def grouped_gradients(grad, a, b, ends, of_a, of_b):
    first = None
    check_readable("gemm_grouped", grad=grad, a=a, b=b)  # before anything looks at them in another way
    if of_a:
        room = floats_of("gemm_grouped", "a", a, TYPES, 2).new(a.shape, zero=True)
        first = gemm_grouped(grad, turned_array(b), ends, room)
    return first, _of_matrices(grad, a, b, ends) if of_b else None


def _of_matrices(grad: Any, a: Any, b: Any, ends: Any) -> Any:
    """Multiply, for group g, the transpose of its rows of `a` by its rows of `grad`."""
    left, right = (floats_of("gemm_grouped", name, x, TYPES, 2) for name, x in (("a", a), ("grad", grad)))
    (rows, height), width, count = left.shape, right.shape[1], b.shape[0]
    result = of_type(left, left.new((count, height, width), zero=rows == 0))
    if result.size == 0 or rows == 0:
        return result.array
    limits = group_ends("gemm_grouped", ends, left, count)
    A, B = (given if has_boxes(given) else in_boxes(given) for given in (left, right))
    C = result.array if has_boxes(result) else room_for_boxes(result, result.shape)
    product = Product(height, width, -(-rows // count), left.multiprocessors(), EVEN, EVEN, False, count)
    plan = planned(product, whole=True)
    run = ragged_kernel(left.type, plan.height, plan.width, plan.band(BAND))
    widths = A.shape[1], B.shape[1], C.shape[2]
    launch(run, plan.blocks, A.array, B.array, C, limits.array, count, height, width, rows, *widths)
    if C is not result.array:
        copy(result.info.family, result.array, first_columns(C, width))
    return result.array
