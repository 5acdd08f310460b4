"""Which elements an access touches that is not of one element: boxes, rows of matrices, parts of accumulators.

Input: the index of the first element, as linear forms.  Output: the index of any element, with unknowns of its own, and
what is known of these: forms that are not negative.
"""

from __future__ import annotations

from snap.analysis import linear
from snap.analysis.linear import Atom, Form
from snap.analysis.values import Values
from snap.ir import nodes as ir
from snap.ir.hardware import MATRIX_ROW, WARP, WARPGROUP
from snap.ir.types import THREAD1, WARP1, Level
from snap.sync.where import Where

Index = tuple[Form, ...]


def inside_box(
    index: Index, box: tuple[int, ...], a: ir.MemAccess, where: Where, values: Values
) -> tuple[Index, list[Form]]:
    """Any element of a box: in each dimension the first one's index and something below the extent."""
    moved, inside = [], []
    for k, (first, extent) in enumerate(zip(index, box)):
        if extent > 1:
            more = values.unknown(("any", (where.frame, id(a), "box", k)), THREAD1)
            inside += [more, linear.subtract(linear.number(extent - 1), more)]
            first = linear.add(first, more)
        moved.append(first)
    return tuple(moved), inside


def fragment_of(
    index: Index, box: tuple[int, ...], a: ir.MemAccess, where: Where, values: Values
) -> tuple[Index, list[Form]]:
    """What one thread of a warpgroup holds of a tile of 64 rows, as PTX lays it out."""
    thread = where.at.index[Level.THREAD]
    moved, inside = inside_box(index, (*box[:-2], 1, 1), a, where, values)
    more = []
    for k, extent in enumerate((2, box[-1] // 8, 2)):
        more.append(values.unknown(("any", (where.frame, id(a), "fragment", k)), THREAD1))
        inside += [more[-1], linear.subtract(linear.number(extent - 1), more[-1])]
    lane = linear.remainder(thread, WARP)
    warp = linear.quotient(linear.remainder(thread, WARPGROUP), WARP)
    row = linear.add(linear.add(linear.quotient(lane, 4), warp, 16), more[0], 8)
    column = linear.add(linear.add(linear.times(linear.remainder(lane, 4), 2), more[1], 8), more[2])
    return (*moved[:-2], linear.add(moved[-2], row), linear.add(moved[-1], column)), inside


def inside_rows(
    index: Index | None, shape: Index | None, a: ir.MemAccess, where: Where, values: Values
) -> tuple[Index | None, list[Form]]:
    """Any element of a row that a lane of this thread's warp names: which lane moves what is the hardware's matter."""
    wide = MATRIX_ROW // a.view.elem.bytes
    whole_rows = shape is None or linear.is_number(shape[-1]) and shape[-1][0] % wide == 0
    if not whole_rows or not all(_same_for_a_warp(atom, values) for atom in linear.atoms(index)):
        return None, []
    lane = values.unknown(("any", (where.frame, id(a), "box", "lane")), THREAD1)
    thread = ("thread",)
    there = {thread: linear.add(lane, linear.quotient(linear.unknown(thread), WARP), WARP)}
    moved, inside = inside_box(
        tuple(linear.replaced(i, there) for i in index), (*(1 for _ in index[1:]), wide), a, where, values
    )
    return moved, [lane, linear.subtract(linear.number(WARP - 1), lane), *inside]


def _same_for_a_warp(atom: Atom, values: Values) -> bool:
    """What the lanes of a warp agree about, or know of each other."""
    if atom[0] in ("thread", "block", "cluster", "count", *linear.COMPOUND):
        return True
    return atom[0] in ("var", "loop", "turn") and values.privileges.get(atom, THREAD1).at_least(WARP1)
