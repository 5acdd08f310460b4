"""Compute how many elements an access touches from its index on, where they are, and what several accesses touch.

Input: accesses that the walk found, and indices.  Output: sizes, by dimension; conditions and offsets; of accesses of
one place that differ by numbers alone, which loops that are run out and calls have made many of, one that stands for
all.  Invariant: one meaning for all properties: what *bounds* shows to be inside is what *races* and *init* compare; an
access that stands for others touches all that they touch, under the same conditions: where it meets nothing, none of
them does.  Non-goals: questions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

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


def hulls(pairs: Iterable[tuple[Site, Site]]) -> list[tuple[Site, Site]]:
    """Merge pairs of accesses that are alike on both sides: into boxes that hold the boxes of all of them."""
    alike: dict[tuple, list[tuple[Site, Site]]] = {}
    for a, b in pairs:
        alike.setdefault((_kind(a), _kind(b)), []).append((a, b))
    return [(_hull([a for a, _ in found]), _hull([b for _, b in found])) for found in alike.values()]


def _kind(s: Site) -> tuple:
    """All that a question depends on, but for the numbers that are added in its index."""
    if s.extent not in (Extent.ELEMENT, Extent.BOX):  # which thread touches which of its elements, the hardware decides
        return (id(s),)
    index = tuple(i - i.constant for i in s.index)
    return id(s.root), s.elem, s.shape, index, s.block, s.path, s.kind, s.atomic


def _hull(sites: list[Site]) -> Site:
    """From the least index of all, as far as one of them reaches, in each dimension."""
    first = sites[0]
    if all(s is first for s in sites):
        return first
    index, box = [], []
    for k, i in enumerate(first.index):
        starts = [s.index[k].constant for s in sites]
        ends = [n + (s.box[k] if s.box is not None else 1) for s, n in zip(sites, starts)]
        index.append(i - i.constant + min(starts))
        box.append(max(ends) - min(starts))
    return replace(first, index=tuple(index), box=tuple(box), extent=Extent.BOX)
