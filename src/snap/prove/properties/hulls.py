"""Accesses that differ by numbers alone, as one.

Input: accesses of one place, or goals, which loops that are run out and calls have made many of.  Output: fewer of
them.  Invariant: an access that stands for others touches all that they touch, under the same conditions: where it
meets nothing, none of them does; a goal that stands for others makes them hold.  Non-goals: answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from snap._compiler.analysis.exact import logic
from snap._compiler.ir.effects import Extent
from snap._compiler.walk.sites import Site
from snap.prove.properties.goals import Goal


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


def strongest(goals: Iterable[Goal]) -> list[Goal]:
    """Without the goals that others make hold: of `p + 3 >= 0` and `p >= 0`, on one path, the second is enough."""
    kept: dict[object, Goal] = {}
    for goal in goals:
        bound = goal.bound if goal.goal[0] == logic.GE else None
        key = id(goal) if bound is None else (goal.path, bound - bound.constant)
        other = kept.get(key)
        if other is None or other.bound is None or bound is None or bound.constant < other.bound.constant:
            kept[key] = goal
    return list(kept.values())
