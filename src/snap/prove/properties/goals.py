"""The goals of a kernel's accesses: bounds, overflow and views.

Input: what the walk found, and the solvers.  Output: `Goal`s, each a condition that must follow from what is known
where it is asked; and obligations.  Invariant: where all goals of a place follow, the place is safe in every launch.
Non-goals: two threads (disjoint.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from snap._compiler.analysis.exact import logic
from snap._compiler.analysis.exact.conditions import at_least, equal
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond, each
from snap._compiler.analysis.exact.terms import Poly, Terms, number
from snap._compiler.ir.effects import Extent
from snap._compiler.ir.integers import held_by
from snap._compiler.walk.sites import Arithmetic, Inside, Promise, Site
from snap.diag.source import source_line
from snap.diag.span import Span
from snap.prove.properties.extents import sizes
from snap.prove.verdict import Property


@dataclass(slots=True)
class Goal:
    """kind: the property.  bound: of `goal`, that it says `bound >= 0`, for those who look for what is missing."""

    kind: Property
    what: str
    span: Span
    path: tuple[Cond, ...]
    goal: Cond
    bound: Poly | None = None
    site: Site | None = None
    vouched: str = ""


def shown(span: Span) -> str:
    """The text of a place, as far as it is in one line."""
    text = source_line(span.filename, span.line)
    end = span.end_column if span.end_line == span.line else len(text)
    return " ".join(text[span.column : end].split()) or "?"


def _at_least(kind: Property, what: str, of: Site | Arithmetic | Inside, p: Poly) -> Goal:
    site = of if isinstance(of, Site) else None
    return Goal(kind, what, of.span, of.path, at_least(p, 0), p, site, of.vouched)


def of_site(s: Site, cluster: int) -> list[Goal]:
    """Return what it takes for an access to be inside of its array."""
    what = f"`{shown(s.span)}` is inside of `{s.root.name}`"
    if s.extent is Extent.ANYWHERE:
        return [Goal(Property.BOUNDS, f"what CUDA text does with `{s.name}` is inside of it", s.span, s.path, FALSE)]
    found: list[Poly] = []
    if s.block is not None:
        found += [s.block, -s.block + (cluster - 1)]
    counts = sizes(s)
    if s.free:
        found += s.index if s.starts else ()
    elif s.shape is None:
        found += [s.index[0], _room(s, s.index[0], counts[0])]
    else:
        for i, n, extent in zip(s.index, s.shape, counts):
            found += [i, n - i - extent]
        found += _fits(s)
    return [_at_least(Property.BOUNDS, what, s, p) for p in found]


def _room(s: Site, first: Poly, size: int) -> Poly:
    """Return what is left of a view of one dimension behind so many elements from the first one on."""
    if s.first is not None:  # it begins there, and ends within the first of them
        return s.root.bytes - first * s.elem.bytes - s.first
    if s.root.length is not None and s.elem == s.root.obj.elem:
        return s.root.length - first - size
    return s.root.bytes - (first + size) * s.elem.bytes


def _fits(s: Site) -> list[Poly]:
    """A view is no larger than what it shows."""
    assert s.shape is not None
    own = s.root.shape
    if s.elem == s.root.obj.elem and own == s.shape:
        return []
    if own is not None and len(own) == len(s.shape) and own[:-1] == s.shape[:-1]:
        return [own[-1] * s.root.obj.elem.bytes - s.shape[-1] * s.elem.bytes]
    return [s.root.bytes - math.prod(s.shape, start=number(s.elem.bytes))]


def of_arithmetic(a: Arithmetic) -> list[Goal]:
    low, high = held_by(a.type)
    what = f"`{shown(a.span)}` does not overflow `{a.type}`"
    ends = (a.value - low, number(high) - a.value)
    least, most = a.value.span()
    wanted = [p for p, open_ in zip(ends, (least < low, most > high)) if open_]
    return [_at_least(Property.OVERFLOW, what, a, p) for p in wanted]


def of_inside(terms: Terms, i: Inside) -> list[Goal]:
    if i.multiple:
        what = f"`{shown(i.span)}` begins at a multiple of {i.multiple} elements"
        goal = equal(terms.modulo(i.index, i.multiple), 0)
        return [Goal(Property.VIEWS, what, i.span, i.path, goal, vouched=i.vouched)] if goal != TRUE else []
    what = f"`{shown(i.span)}` is inside of `{i.name}`"
    return [_at_least(Property.BOUNDS, what, i, p) for p in (i.index, -i.index + (i.size - 1))]


def of_promise(p: Promise) -> list[Goal]:
    """A condition of a contract, part by part."""
    bounds = ((one, one[1] if one[0] == logic.GE else None) for one in each((p.goal,)))
    return [Goal(Property.CONTRACT, p.what, p.span, p.path, one, bound) for one, bound in bounds]


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
