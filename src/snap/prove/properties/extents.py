"""Compute how many elements an access touches from its index on, and where they are.

Input: accesses that the walk found, and indices.  Output: sizes, by dimension; conditions and offsets.  Invariant: one
meaning for all properties: what *bounds* shows to be inside is what *races* and *init* compare.  Non-goals: questions.
"""

from __future__ import annotations

from snap._compiler.analysis.exact.conditions import at_least, below
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.terms import Poly, number
from snap._compiler.ir.effects import Extent
from snap._compiler.ir.hardware import MATRIX_ROW
from snap._compiler.walk.sites import Site

Shape = tuple[Poly, ...] | None


def sizes(s: Site) -> tuple[int, ...]:
    """Return how many elements are touched in each dimension; of rows, the 16 bytes of one."""
    found = s.box if s.box is not None and s.extent in (Extent.BOX, Extent.FRAGMENT) else (1,) * len(s.index)
    return (*found[:-1], MATRIX_ROW // s.elem.bytes) if s.extent is Extent.ROWS else tuple(found)


def inside(index: tuple[Poly, ...], shape: Shape) -> list[Cond]:
    """Return what holds of an index that lies in its array: that it does is shown by *bounds*."""
    return [*(at_least(i, 0) for i in index), *(below(i, n) for i, n in zip(index, shape or ()))]


def flat(index: tuple[Poly, ...], shape: Shape) -> Poly:
    """Return how many elements lie before an index."""
    total = number(0)
    for k, i in enumerate(index):
        total = (total * shape[k] if k and shape is not None else total) + i
    return total
