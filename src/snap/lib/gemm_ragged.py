"""The gradients of `snap.lib.gemm_grouped`: by rows, and by matrices, whose products have groups along k.

Input:      the gradient of a grouped product, its two arrays, its ends, which of the gradients are wanted
Output:     (gradient of a, gradient of b), None where it is not wanted.  Rows of `a` that belong to no group have the
            gradient zero, and so has a matrix whose group has no rows
Invariant:  nothing looks at `ends` but what runs where they are.  Rows go, in one pass, to where every group begins at
            a multiple of a step of k, with zeros behind it: so a step never has rows of two groups
Non-goals:  arrays of other libraries than torch and NumPy
"""

from __future__ import annotations

import sys
from typing import Any

from snap.lib.arrays import Argument
from snap.lib.gemm import BAND, TYPES
from snap.lib.gemm_arrays import columns as first_columns
from snap.lib.gemm_arrays import copy, floats_of, has_boxes, in_boxes, multiply, of_type, room_for_boxes, turned_array
from snap.lib.gemm_kernels import gemm_kernel
from snap.lib.gemm_many import gemm_grouped, group_ends, planned
from snap.lib.gemm_parts import depth_of
from snap.lib.recorded import recorded, step


@recorded
def grouped_gradients(grad, a, b, ends, of_a, of_b):
    first = None
    if of_a:
        room = floats_of("gemm_grouped", "a", a, TYPES, 2).new(a.shape, zero=True)
        first = gemm_grouped(grad, turned_array(b), ends, room)
    return first, _of_matrices(grad, a, b, ends) if of_b else None


def _of_matrices(grad: Any, a: Any, b: Any, ends: Any) -> Any:
    """Of group g: the transpose of its rows of `a`, times its rows of `grad`."""
    left, right = (floats_of("gemm_grouped", name, x, TYPES, 2) for name, x in (("a", a), ("grad", grad)))
    (rows, height), width, count = left.shape, right.shape[1], b.shape[0]
    result = of_type(left, left.new((count, height, width), zero=rows == 0))
    if result.size == 0 or rows == 0:
        return result.array
    limits = group_ends("gemm_grouped", ends, left, count)
    unit = depth_of(left.type)
    places, padded = (step(make, limits.array, rows, unit) for make in (_places, _padded_ends))
    A, B = (_spread(given, places, rows + unit * count) for given in (left, right))
    C = result.array if has_boxes(result) else room_for_boxes(result, result.shape)
    plan = planned(height, width, -(-rows // count), left.multiprocessors(), count, False, whole=True)
    sizes = plan.height, plan.width, plan.band(BAND)
    run = gemm_kernel(left.type, left.type, True, False, *sizes, many="ragged")
    multiply(run, plan, left, A.array, B.array, C, (height, width, rows), ends=padded, count=count)
    if C is not result.array:
        copy(result.info.family, result.array, first_columns(C, width))
    return result.array


def _spread(given: Argument, places: Any, rows: int) -> Argument:
    """The rows at their places, zeros between them, so that boxes can be made of it."""
    room = given.new((rows, given.shape[1]), zero=True)
    step(_put, room, places, given.array)
    found = of_type(given, room)
    return found if has_boxes(found) else in_boxes(found)


def _put(room: Any, places: Any, array: Any) -> None:
    room[places] = array.detach() if hasattr(array, "detach") else array


def _bounds(ends: Any, rows: int) -> tuple[Any, Any, Any]:
    """The library of the ends, the first row of each group, and the one behind its last: never falling, and inside."""
    library = sys.modules["torch" if hasattr(ends, "untyped_storage") else "numpy"]
    if library.__name__ == "torch":
        behind = ends.long().cummax(0).values.clamp(0, rows)
    else:
        behind = library.maximum.accumulate(ends.astype("int64")).clip(0, rows)
    first = library.zeros_like(behind)
    first[1:] = behind[:-1]
    return library, first, behind


def _padded_ends(ends: Any, rows: int, unit: int) -> Any:
    """Where groups end whose sizes are filled up to whole units."""
    library, first, behind = _bounds(ends, rows)
    found = ((behind - first + unit - 1) // unit * unit).cumsum(0)
    return found.int() if library.__name__ == "torch" else found.astype("int32")


def _places(ends: Any, rows: int, unit: int) -> Any:
    """Where each row goes; those of no group to the last one, which no group reaches."""
    library, first, behind = _bounds(ends, rows)
    sizes = (behind - first + unit - 1) // unit * unit
    starts = sizes.cumsum(0) - sizes
    device = {"device": ends.device} if library.__name__ == "torch" else {}
    row = library.arange(rows, **device)
    group = library.searchsorted(behind, row, side="right")
    own = group.clip(0, len(ends) - 1)
    last = rows + unit * len(ends) - 1
    return library.where(group < len(ends), starts[own] + row - first[own], library.full_like(row, last))
