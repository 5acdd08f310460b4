"""Find what goes wrong in every launch: two units that certainly meet in an element, and an index certainly outside.

Input: what a walk through a function has found (parts.py).  Output: collisions, and indices that are outside.
Invariant: each of them happens in every launch that comes to the scope, or to the function, whatever the arguments are:
by threads of block 0, or of blocks 0 and 1 where every launch has these, on a way that constants and their own numbers
decide (points.py).  Non-goals: what depends on a launch, which the CPU machine and the prover find.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.values import ANY
from snap._compiler.check.memory.parts import Looked, OpenPartition, Reached
from snap._compiler.check.memory.points import MOST_POINTS, Counted, Points, WayStep
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import Range
from snap._compiler.ir.types import BLOCK1, THREAD1, Level, Place, Privilege, Space
from snap.diag.span import Span

THREAD, BLOCK = (forms.THREAD,), (forms.BLOCK,)
OneElement = tuple[tuple[int, ...], tuple]  # of a thread: numbers, and what is added to them
Unit = tuple[int, int]  # a thread: its block, and its number there
SureAccess = tuple[ir.MemAccess, tuple[Form, ...], tuple[WayStep, ...], bool]  # with its way, and whether it writes


@dataclass(frozen=True, slots=True)
class Collision:
    """Two units in one scope: `writer`, a block and a thread, writes an element that `other` touches."""

    write: ir.MemAccess
    writer: Unit
    access: ir.MemAccess
    other: Unit
    writes: bool  # the other one, too
    of: OpenPartition


@dataclass(frozen=True, slots=True)
class Outside:
    """A thread of block 0 makes an access whose index in this dimension is outside."""

    access: ir.MemAccess
    index: int
    extent: int
    thread: int


class Certain:
    """Ask what certainly happens in a function.  blocks: 2 where every launch has as many, and nothing orders them."""

    def __init__(self, place: Place, looked: Looked, blocks: int):
        held = place.held(Level.THREAD)
        self.looked, self.blocks = looked, blocks
        self.threads = 0 if held is None or held.count is None else held.count
        self.whole = held is not None and not held.open
        self.taken: dict[tuple[tuple[WayStep, ...], tuple[tuple[int, Privilege], ...]], Points | None] = {}

    def _started(self, blocks: int) -> Points:
        threads, at = list(range(self.threads)) * blocks, [b for b in range(blocks) for _ in range(self.threads)]
        return Points({THREAD: threads, BLOCK: at, (forms.CLUSTER,): [0] * len(at)})

    # ---- one thread -------------------------------------------------------------------------------------------------

    def outside(self) -> Iterator[Outside]:
        """Find accesses with an index that is certainly outside, each with the first thread of which it is one."""
        seen: set[Span] = set()
        for reached in self.looked.reached if self.threads and self.whole else ():
            first = None if reached.access.span in seen else self._outside(reached)
            if first is not None:
                seen.add(reached.access.span)
                yield first

    def _outside(self, reached: Reached) -> Outside | None:
        counted = {s.trip: s for s in reached.path if isinstance(s, Counted)}
        spans = [self._span(i, counted) for i in reached.index]
        if all(span is None or 0 <= span[0] and span[1] < n for span, n in zip(spans, reached.extents)):
            return None
        key = reached.path, reached.scopes
        if key not in self.taken:
            self.taken[key] = self._taking(*key)
        points = self.taken[key]
        if points is None:
            return None
        for i, n in zip(reached.index, reached.extents):
            for thread, value in zip(points.given[THREAD], points.of(i) or ()):
                if not 0 <= value < n:
                    return Outside(reached.access, value, n, thread)
        return None

    def _span(self, f: Form, counted: dict[LinearAtom, Counted]) -> Range | None:
        """Bound a form from below and above; None where more than these numbers decides."""
        low = high = f[0]
        for atom, k in f[1]:
            found = self._span_of(atom, counted)
            if found is None:
                return None
            low, high = low + min(k * end for end in found), high + max(k * end for end in found)
        return low, high

    def _span_of(self, atom: LinearAtom, counted: dict[LinearAtom, Counted]) -> Range | None:
        match atom:
            case (forms.THREAD,):
                return 0, self.threads - 1
            case (forms.BLOCK,) | (forms.CLUSTER,):
                return 0, 0
            case (forms.TRIP, _) if atom in counted:
                step = counted[atom]
                return (
                    (0, max(step.distance[0] // step.step, 0)) if forms.is_number(step.distance) else (0, MOST_POINTS)
                )
            case (forms.DIV, x, n):
                inner = self._span(x, counted)
                return None if inner is None else (inner[0] // n, inner[1] // n)
            case (forms.MUL | forms.XOR, x, y, *_):
                ends = self._span(x, counted), self._span(y, counted)
                return None if None in ends else ANY
        return None

    def _taking(self, path: tuple[WayStep, ...], scopes: tuple[tuple[int, Privilege], ...]) -> Points | None:
        """The threads of block 0 that come to the end of a path: of the first unit that enters the scope behind the
        last step which something else decides.
        """
        points, open_ = self._started(1), False
        divided = dict(reversed(scopes))  # by how many steps lie before: of several scopes there, the outermost
        for k, step in enumerate((*path, None)):
            if open_ and k in divided:
                unit = _one_unit(points, divided[k])
                if unit is not None:
                    points, open_ = unit, False
            taken = None if step is None else points.through(step)
            open_ = open_ or step is not None and taken is None
            points = points if taken is None else taken
        return None if open_ or not points.count else points

    # ---- two units --------------------------------------------------------------------------------------------------

    def colliding(self) -> Iterator[Collision]:
        """Find partitions in which two units certainly meet, each with the first two that do."""
        for scope in self.looked.scopes if self.threads else ():
            if not scope.ordered:
                both = itertools.chain(self._between_threads(scope), self._between_blocks(scope))
                yield from itertools.islice(both, 1)

    def _between_threads(self, scope: OpenPartition) -> Iterator[Collision]:
        """Two threads of block 0, in the first unit that comes to a scope."""
        sure = list(_sure(scope))
        if scope.handle.privilege != THREAD1 or _one_each(sure):
            return
        points = self._coming(scope)
        if points is not None and points.count:
            agreed = {atom for atom, p in scope.shared.items() if p.level > Level.THREAD}
            yield from _meeting(scope, sure, points, agreed, lambda unit: unit)

    def _coming(self, scope: OpenPartition) -> Points | None:
        """The threads of the first unit that comes to a scope, whose memory it divides."""
        points, told = self._started(1), True
        for step in scope.outer:
            taken = points.through(replace(step, left=True) if isinstance(step, Counted) else step)
            told, points = told and taken is not None, points if taken is None else taken
        return _first_unit(points, scope.above) if told else _one_unit(points, scope.above)

    def _between_blocks(self, scope: OpenPartition) -> Iterator[Collision]:
        """Threads of blocks 0 and 1, which nothing orders with each other."""
        inner = scope.handle.privilege
        if self.blocks < 2 or scope.above.level is not Level.GRID or scope.handle.obj.space is not Space.GLOBAL:
            return
        points = self._started(2).after(scope.outer)
        if points is not None and inner in (BLOCK1, THREAD1):
            agreed = {atom for atom, p in scope.shared.items() if p.level is Level.GRID}
            yield from _meeting(scope, list(_sure(scope)), points, agreed, lambda unit: unit[0])


def _first_unit(points: Points, p: Privilege) -> Points:
    if p.level is not Level.THREAD or not points.count:
        return points
    units = [thread // p.n for thread in points.given[THREAD]]
    return points.where([unit == units[0] for unit in units])


def _one_unit(points: Points, p: Privilege) -> Points | None:
    """All of them, where they are of one unit; else nobody knows which unit it is."""
    return points if _first_unit(points, p).count == points.count else None


def _sure(scope: OpenPartition) -> Iterator[SureAccess]:
    for accesses, writes in ((scope.writes, True), (scope.reads, False)):
        for access, _, index, _ in accesses:
            if id(access) in scope.steps and index is not None:
                yield access, index, scope.steps[id(access)], writes


def _one_each(sure: list[SureAccess]) -> bool:
    """Decide whether each thread plainly has an element of its own, as in most kernels."""
    of_view = {a.view: index for a, index, _, writes in sure if writes}
    return all(of_view.get(a.view, index) == index for a, index, _, _ in sure) and all(
        any(len(i[1]) == 1 and i[1][0][0] == THREAD for i in index) for index in of_view.values()
    )


def _meeting(
    scope: OpenPartition,
    sure: list[SureAccess],
    points: Points,
    agreed: set[LinearAtom],
    unit_of: Callable[[Unit], object],
) -> Iterator[Collision]:
    """Two units that certainly touch one element, of which one writes it."""
    ways: dict[tuple[WayStep, ...], Points | None] = {}
    known = []
    for access, index, way, writes in sure:
        if way not in ways:
            ways[way] = points.after(way)
        known.append((access, _elements(index, ways[way], agreed), writes))
    for write, elements, writes in known:
        owner: dict[OneElement, Unit] = {}
        for unit, at in elements if writes else ():
            if unit_of(owner.setdefault(at, unit)) != unit_of(unit):
                yield Collision(write, owner[at], write, unit, True, scope)
        for access, touched, also in known if owner else ():
            for unit, at in touched if access.view == write.view and access is not write else ():
                if unit_of(owner.get(at, unit)) != unit_of(unit):
                    yield Collision(write, owner[at], access, unit, also, scope)


def _elements(index: tuple[Form, ...], points: Points | None, agreed: set[LinearAtom]) -> list[tuple[Unit, OneElement]]:
    """Say which element each thread touches: a number in each dimension, and what is added to it that all threads
    agree on, whatever it is. Nothing where more than that decides.
    """
    if points is None:
        return []
    added = tuple(tuple(part for part in i[1] if part[0] in agreed) for i in index)
    numbers = [points.of((i[0], tuple(part for part in i[1] if part[0] not in agreed))) for i in index]
    if any(found is None for found in numbers):
        return []
    units = zip(points.given[BLOCK], points.given[THREAD])
    places = zip(*(found or () for found in numbers)) if numbers else itertools.repeat(())
    return [(unit, (at, added)) for unit, at in zip(units, places)]
