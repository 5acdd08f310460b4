"""Describe which elements an access touches: a set of them, as forms over unknowns.

Input: an access, and what integers are where it is made.  Output: a `Footprint`: an index in every dimension, each a
form over unknowns that are the thread's (its position, its variables) or the footprint's own (which element of a box),
and facts about them.  The set is what the forms give for all numbers that satisfy the facts.  Non-goals: whether two
threads meet in it (analysis/linear/overlap.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.values import Values
from snap._compiler.ir.hardware import MATRIX_ROW, WARP, WARPGROUP
from snap._compiler.ir.integers import Range
from snap._compiler.ir.types import THREAD1, WARP1, Element
from snap._compiler.ir.word import Word

Forms = tuple[Form, ...]


class ElementOf(Word):
    """Name any element of what an access touches at once: (ANY, (*where, BOX, which)): of a box, or of what a thread
    holds of a tile.
    """

    BOX = "box"
    FRAGMENT = "fragment"


BOX, FRAGMENT = ElementOf


@dataclass(slots=True, eq=False)
class Footprint:
    """Describe which elements one access touches: an index per dimension, or (start, size) in bytes where that is how
    it must be compared; None: unknown, any.  It is never changed.  Those of accesses come from `Memo.footprint`, one
    object for equal ones: they are compared by identity.
    """

    elem: Element
    shape: Forms | None
    index: Forms | None
    facts: Forms


def unknowns(f: Footprint, values: Values) -> dict[LinearAtom, Range]:
    """Return what the elements depend on, and the range of each by its type, or by what it counts."""
    named = (atom for atom in forms.atoms((*(f.index or ()), *f.facts)) if atom[0] not in forms.COMPOUND)
    return {atom: values.range_of(atom) for atom in named}


def inside_box(index: Forms, box: tuple[int, ...], where: tuple, values: Values) -> tuple[Forms, list[Form]]:
    """Any element of a box: in each dimension the first one's index and something below the extent.  `where` tells the
    access from others.
    """
    moved, inside = list(index), []
    for k, extent in enumerate(box):
        if extent > 1:
            more = values.unknown((forms.ANY, (*where, BOX, k)), THREAD1)
            inside += [more, forms.subtract(forms.number(extent - 1), more)]
            moved[k] = forms.add(moved[k], more)
    return tuple(moved), inside


def fragment_of(
    index: Forms, box: tuple[int, ...], thread: Form, where: tuple, values: Values
) -> tuple[Forms, list[Form]]:
    """Return the elements of a tile of 64 rows that one thread of a warpgroup holds, as PTX lays it out."""
    moved, inside = inside_box(index, (*box[:-2], 1, 1), where, values)
    more = []
    for k, extent in enumerate((2, box[-1] // 8, 2)):
        more.append(values.unknown((forms.ANY, (*where, FRAGMENT, k)), THREAD1))
        inside += [more[-1], forms.subtract(forms.number(extent - 1), more[-1])]
    lane = forms.remainder(thread, WARP)
    warp = forms.quotient(forms.remainder(thread, WARPGROUP), WARP)
    row = forms.add(forms.add(forms.quotient(lane, 4), warp, 16), more[0], 8)
    column = forms.add(forms.add(forms.times(forms.remainder(lane, 4), 2), more[1], 8), more[2])
    return (*moved[:-2], forms.add(moved[-2], row), forms.add(moved[-1], column)), inside


def inside_rows(
    index: Forms, shape: Forms | None, elem: Element, where: tuple, values: Values
) -> tuple[Forms | None, list[Form]]:
    """Any element of a row that a lane of this thread's warp names: which lane moves what is the hardware's matter."""
    wide = MATRIX_ROW // elem.bytes
    whole_rows = shape is None or forms.is_number(shape[-1]) and shape[-1][0] % wide == 0
    if not whole_rows or not all(_same_for_a_warp(atom, values) for atom in forms.atoms(index)):
        return None, []
    lane = values.unknown((forms.ANY, (*where, BOX, "lane")), THREAD1)
    thread = (forms.THREAD,)
    there = {thread: forms.add(lane, forms.quotient(forms.unknown(thread), WARP), WARP)}
    moved, inside = inside_box(
        tuple(forms.replaced(i, there) for i in index), (*(1 for _ in index[1:]), wide), where, values
    )
    return moved, [lane, forms.subtract(forms.number(WARP - 1), lane), *inside]


def _same_for_a_warp(atom: LinearAtom, values: Values) -> bool:
    """Return what the lanes of a warp agree about, or know of each other."""
    if atom[0] in (forms.THREAD, forms.BLOCK, forms.CLUSTER, forms.COUNT, *forms.COMPOUND):
        return True
    return atom[0] in (forms.VAR, forms.LOOP, forms.TRIP) and values.privileges.get(atom, THREAD1).at_least(WARP1)


def flat(f: Footprint) -> tuple[Form, int] | None:
    """First byte and size, where the shape is constant."""
    if f.index is None:
        return None
    total = forms.ZERO
    for k, i in enumerate(f.index):
        if k:
            n = (f.shape or ())[k]
            if not forms.is_number(n):
                return None
            total = forms.times(total, n[0])
        total = forms.add(total, i)
    return forms.times(total, f.elem.bytes), f.elem.bytes


def same_element(a: Footprint, b: Footprint) -> tuple[list[Form], list[Form]] | None:
    """Return what holds where both touch one element: forms that are zero, and forms that are not negative.  None:
    anything may.
    """
    if a.index is None or b.index is None:
        return None
    if a.elem == b.elem and a.shape == b.shape:
        return [forms.subtract(x, y) for x, y in zip(a.index, b.index)], []
    leading: list[Form] = []
    first: tuple[Form, int] | None
    second: tuple[Form, int] | None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape) and a.shape[1:-1] == b.shape[1:-1]:
        # the same rows, seen as other elements
        leading = [forms.subtract(x, y) for x, y in zip(a.index[:-1], b.index[:-1])]
        first = forms.times(a.index[-1], a.elem.bytes), a.elem.bytes
        second = forms.times(b.index[-1], b.elem.bytes), b.elem.bytes
    else:
        first, second = flat(a), flat(b)
    if first is None or second is None:
        return None
    (s1, n1), (s2, n2) = first, second
    return leading, [
        forms.add(forms.subtract(s2, s1), forms.number(n2 - 1)),
        forms.add(forms.subtract(s1, s2), forms.number(n1 - 1)),
    ]


def plainly_apart(a: Footprint, b: Footprint) -> bool:
    """Two numbers that differ, in one place of the index."""
    if a.index is None or b.index is None or a.elem != b.elem or a.shape != b.shape:
        return False
    return any(not x[1] and not y[1] and x[0] != y[0] for x, y in zip(a.index, b.index))
