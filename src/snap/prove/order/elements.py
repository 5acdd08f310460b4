"""Describe which elements an access touches: a set of them, as forms over unknowns.

Input: an index, and what an instruction touches there.  Output: `TouchedElements`: an index in every dimension, and
facts about the unknowns in it.  The set is what the forms give for all numbers that satisfy the facts.  Invariant:
every element that the instruction touches is one of the set; `analysis/linear/footprints.py`, by which inference says
the same, is not asked.  Non-goals: whether two threads meet in it (`order/sites.py`).
"""

from __future__ import annotations

from functools import reduce

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.ir.hardware import MATRIX_ROW, WARP, WARPGROUP
from snap._compiler.ir.types import I32, THREAD1, WARP1, Element
from snap.prove.order.kinds import BOX, FRAGMENT
from snap.prove.order.reading import Known
from snap.record import record

IndexForms = tuple[Form, ...]
Moved = tuple[IndexForms | None, list[Form]]  # an index, and facts


@record
class TouchedElements:
    """index, shape: by dimension; index None: any element."""

    elem: Element
    shape: IndexForms | None
    index: IndexForms | None
    facts: IndexForms = ()


NOWHERE = TouchedElements(I32, None, None)


def below(values: Known, extent: int, name: tuple) -> tuple[Form, list[Form]]:
    """Return any number from 0 to the extent less one."""
    any_ = values.unknown((forms.ANY, name), THREAD1)
    return any_, [any_, forms.subtract(forms.number(extent - 1), any_)]


def in_box(index: IndexForms, box: tuple[int, ...], where: tuple, values: Known) -> tuple[IndexForms, list[Form]]:
    """Return any element of a box, whose first one the index names."""
    moved, facts = list(index), []
    for k, extent in enumerate(box):
        if extent > 1:
            more, inside = below(values, extent, (*where, BOX, k))
            moved[k] = forms.add(moved[k], more)
            facts += inside
    return tuple(moved), facts


def in_fragment(index: IndexForms, box: tuple[int, ...], where: tuple, values: Known) -> Moved:
    """Return any element that one thread of a warpgroup holds of a tile of 64 rows, as PTX lays out wgmma's D: rows
    16 w + l / 4 and 8 below it, of warp w and lane l; columns 8 k + 2 (l % 4) and the next one.
    """
    moved, facts = in_box(index, (*box[:-2], 1, 1), where, values)
    thread = forms.unknown((forms.THREAD,))
    lane, warp = forms.remainder(thread, WARP), forms.quotient(forms.remainder(thread, WARPGROUP), WARP)
    chosen = []
    for k, extent in enumerate((2, box[-1] // 8, 2)):
        one, inside = below(values, extent, (*where, FRAGMENT, k))
        chosen.append(one)
        facts += inside
    half, eight, second = chosen
    row = _sum((forms.quotient(lane, 4), 1), (warp, 16), (half, 8), (moved[-2], 1))
    column = _sum((forms.remainder(lane, 4), 2), (eight, 8), (second, 1), (moved[-1], 1))
    return (*moved[:-2], row, column), facts


def in_rows(index: IndexForms, shape: IndexForms | None, elem: Element, where: tuple, values: Known) -> Moved:
    """Return any element of a row of 16 bytes that a lane of this thread's warp names (ldmatrix, stmatrix): which lane
    gets or gives what is the hardware's matter.
    """
    wide = MATRIX_ROW // elem.bytes
    whole_rows = shape is None or forms.is_number(shape[-1]) and shape[-1][0] % wide == 0
    if not whole_rows or not all(_same_for_a_warp(atom, values) for atom in forms.atoms(index)):
        return None, []
    lane, facts = below(values, WARP, (*where, BOX, "lane"))
    thread = (forms.THREAD,)
    other = {thread: forms.add(lane, forms.quotient(forms.unknown(thread), WARP), WARP)}
    named = tuple(forms.replaced(i, other) for i in index)
    moved, inside = in_box(named, (*(1 for _ in index[1:]), wide), where, values)
    return moved, [*facts, *inside]


def _same_for_a_warp(atom: LinearAtom, values: Known) -> bool:
    """Return whether the lanes of a warp agree about a number, or know it of each other."""
    if atom[0] in (forms.THREAD, forms.BLOCK, forms.CLUSTER, forms.COUNT, *forms.COMPOUND):
        return True
    return atom[0] in (forms.VAR, forms.LOOP, forms.TRIP) and values.privileges.get(atom, THREAD1).at_least(WARP1)


def _sum(*terms: tuple[Form, int]) -> Form:
    return reduce(lambda found, term: forms.add(found, *term), terms, forms.ZERO)


# ---- the same bytes ----

Common = tuple[list[Form], list[Form]]  # what is zero, and what is not negative


def in_common(a: TouchedElements, b: TouchedElements, starts: tuple[int, int] | None) -> Common | None:
    """Return what holds where both touch one byte; None where anything may.  starts: of two arrays in one memory, the
    byte at which each begins.
    """
    if a.index is None or b.index is None:
        return None
    if starts is not None:
        return _overlapping(_bytes(a, starts[0]), _bytes(b, starts[1]))
    if a.elem == b.elem and a.shape == b.shape:
        return [forms.subtract(x, y) for x, y in zip(a.index, b.index)], []
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape) and a.shape[1:-1] == b.shape[1:-1]:
        # the same rows, as elements of another size
        last = [(forms.times(f.index[-1], f.elem.bytes), f.elem.bytes) for f in (a, b) if f.index is not None]
        found = _overlapping(*last)
        rows = [forms.subtract(x, y) for x, y in zip(a.index[:-1], b.index[:-1])]
        return None if found is None else (rows, found[1])
    return _overlapping(_bytes(a, 0), _bytes(b, 0))


def _bytes(f: TouchedElements, start: int) -> tuple[Form, int] | None:
    """Return the first byte and how many; None where a dimension's size is no number."""
    first = forms.ZERO
    for k, i in enumerate(f.index or ()):
        if k:
            n = (f.shape or ())[k]
            if not forms.is_number(n):
                return None
            first = forms.times(first, n[0])
        first = forms.add(first, i)
    return forms.add(forms.times(first, f.elem.bytes), forms.number(start)), f.elem.bytes


def _overlapping(a: tuple[Form, int] | None, b: tuple[Form, int] | None) -> Common | None:
    if a is None or b is None:
        return None
    gap = forms.subtract(b[0], a[0])
    return [], [forms.add(gap, forms.number(b[1] - 1)), forms.add(forms.times(gap, -1), forms.number(a[1] - 1))]
