"""Find parts that a group reads as one value, and that another unit may write meanwhile.

Input: a checked function, and its reads for a target above thread[1] that go through partitions.  Output: the reads
that another unit of such a partition might overwrite, with the write.  In one scope of a partition nothing orders its
units, so an element that one unit reads for several threads must not be one that another unit writes, wherever in the
scope.  That is shown with what the text tells of the indices; a partition that is declared `disjoint=True` needs no
showing.  Invariant: undecided counts as overwritten.  Non-goals: what one unit does itself, and what was done in other
scopes, is put in order by sync/.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.footprints import inside_box
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.overlap import Overlap
from snap._compiler.analysis.linear.values import Frame, Position, Values, called, facts, form, is_integer
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, Extent, assigned, effects, written
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import THREAD1, Level, Place, Privilege, scalar_of
from snap._compiler.ir.walk import bodies, children, own_expressions, statements, variables

# An access, its shape, its index, and what is known there.
PartitionAccess = tuple[ir.MemAccess, tuple[Form, ...] | None, tuple[Form, ...] | None, tuple[Form, ...]]
Owner = tuple[Frame, int]  # a handle, in a call
OneElement = tuple[tuple[int | None, ...], tuple]  # of a thread: numbers, and what is added to them


_READS, _WRITES = operator.attrgetter("reads"), operator.attrgetter("writes")


@dataclass(slots=True, eq=False)
class OpenPartition:
    """A partition whose units might meet.  shared: the unknowns that are settled when it is entered, and who agrees on
    each.
    """

    handle: ir.Handle
    shared: dict[LinearAtom, Privilege]
    reads: list[PartitionAccess] = field(default_factory=list)
    writes: list[PartitionAccess] = field(default_factory=list)
    guards: int = 0  # around it: conditions, loops, splits, calls
    sure: set[int] = field(default_factory=set)  # the accesses that every thread makes each time that it is entered
    atomics: set[int] = field(default_factory=set)  # of the accesses: these may meet each other

    @property
    def above(self) -> Privilege:
        """The privilege of the memory that is divided."""
        return (self.handle.base or self.handle).privilege


def unshown(handle: ir.Handle | None) -> Iterator[ir.Handle]:
    """The partitions on the way to this name whose units might meet."""
    while handle is not None:
        if handle.origin is ir.Origin.PARTITION and not handle.disjoint:
            yield handle
        handle = handle.base


def overwritten(
    place: Place, params: Iterable[ir.Param], body: ir.Body, reads: Iterable[ir.MemAccess]
) -> Iterator[tuple[ir.MemAccess, ir.Handle, ir.MemAccess]]:
    """The reads that a unit of a partition may make while another one writes the element, each with that partition and
    a write.
    """
    walk = _Walk(place, params, body, {id(access) for access in reads})
    walk.body(body)
    for scope in walk.scopes:
        for read, write in _pairs(scope, place, itertools.product(scope.reads, scope.writes)):
            yield read, scope.handle, write


def scopes_of(place: Place, params: Iterable[ir.Param], body: ir.Body, parts: set[int]) -> list[OpenPartition]:
    """The scopes of these partitions, with all that is read and written in them."""
    walk = _Walk(place, params, body, None)
    walk.body(body)
    return [scope for scope in walk.scopes if scope.handle.uid in parts]


def may_collide(body: ir.Body, parts: set[int]) -> bool:
    """Decide whether one of these partitions is by single threads and has a write that every thread makes: `colliding`
    looks at no others.
    """
    return any(
        type(s) is ir.Partition and s.handle.uid in parts and s.handle.privilege == THREAD1 and _writes_surely(s.body)
        for s in statements(body)
    )


def _writes_surely(body: ir.Body) -> bool:
    return any(_writes_surely(s.body) if isinstance(s, (ir.Group, ir.Partition)) else bool(written(s)) for s in body)


def meeting(place: Place, scopes: Iterable[OpenPartition]) -> Iterator[OpenPartition]:
    """Find scopes whose units nothing shows to be apart: two accesses, one of them a write, may meet in an element."""
    for scope in scopes:
        both = (
            (a, b)
            for a, b in itertools.chain(
                itertools.combinations_with_replacement(scope.writes, 2), itertools.product(scope.reads, scope.writes)
            )
            if not {id(a[0]), id(b[0])} <= scope.atomics
        )
        if any(True for _ in _pairs(scope, place, both)):
            yield scope


@dataclass(frozen=True, slots=True)
class Collision:
    """Two threads of the first block, in one scope: thread `writer` writes an element that thread `other` touches."""

    write: ir.MemAccess
    writer: int
    access: ir.MemAccess
    other: int
    writes: bool  # the other one, too


# What is refused happens in every launch: two threads of block 0, accesses that nothing guards, indices that are known.
def colliding(place: Place, scopes: Iterable[OpenPartition]) -> Iterator[Collision]:
    """Find partitions by single threads in which two threads certainly meet, each with the first two that do."""
    held = place.held(Level.THREAD)
    if held is None or held.count is None:
        return
    for scope in scopes:
        if scope.handle.privilege == THREAD1:
            base = scope.above  # of the first unit that gave the memory away; a role's is its threads'
            units = base.shape.members if base.level is Level.THREAD else range(held.count)
            yield from itertools.islice(_certain(scope, units), 1)


def _certain(scope: OpenPartition, threads: Sequence[int]) -> Iterator[Collision]:
    sure = [(a, index, w) for w in (True, False) for a, index in _sure(scope, w)]
    if _one_each(sure):
        return
    agreed = {atom for atom, p in scope.shared.items() if p.level > Level.THREAD}
    known = [(a, _elements(index, threads, agreed), w) for a, index, w in sure]
    for write, elements, writes in known:
        if not writes or elements is None:
            continue
        owner: dict[OneElement, int] = {}
        for t, at in zip(threads, elements):
            if owner.setdefault(at, t) != t:
                yield Collision(write, owner[at], write, t, True)
        for access, touched, also in known:
            if touched is None or access.view != write.view or access is write:
                continue
            for t, at in zip(threads, touched):
                if owner.get(at, t) != t:
                    yield Collision(write, owner[at], access, t, also)


def _one_each(sure: list[tuple[ir.MemAccess, tuple[Form, ...], bool]]) -> bool:
    """Decide whether each thread plainly has an element of its own, as in most kernels."""
    of_view = {a.view: index for a, index, writes in sure if writes}
    return all(of_view.get(a.view, index) == index for a, index, _ in sure) and all(
        any(len(i[1]) == 1 and i[1][0][0] == (forms.THREAD,) for i in index) for index in of_view.values()
    )


def _sure(scope: OpenPartition, writes: bool) -> Iterator[tuple[ir.MemAccess, tuple[Form, ...]]]:
    for access, _, index, _ in scope.writes if writes else scope.reads:
        if id(access) in scope.sure and index is not None:
            yield access, index


def _elements(index: tuple[Form, ...], threads: Sequence[int], agreed: set[LinearAtom]) -> list[OneElement] | None:
    """Say which element each thread of the first block touches: a number in each dimension, and what is added to it
    that all threads agree on, whatever it is. None where more than the thread's number decides.
    """
    added = tuple(tuple(part for part in i[1] if part[0] in agreed) for i in index)
    numbers: list[list[int]] = []
    for i in index:
        found = _by_thread((i[0], tuple(part for part in i[1] if part[0] not in agreed)), threads)
        if found is None:
            return None
        numbers.append(found)
    return [(at, added) for at in (zip(*numbers) if numbers else itertools.repeat((), len(threads)))]


def _by_thread(f: Form, threads: Sequence[int]) -> list[int] | None:
    """Evaluate a form for each thread."""
    total = [f[0]] * len(threads)
    for atom, k in f[1]:
        match atom:
            case (forms.THREAD,):
                values: Iterable[int] = threads
            case (forms.BLOCK,):
                continue
            case (forms.DIV, x, n):
                inner = _by_thread(x, threads)
                if inner is None:
                    return None
                values = [value // n for value in inner]
            case (forms.MUL, x, y) | (forms.XOR, x, y, _):
                left, right = _by_thread(x, threads), _by_thread(y, threads)
                if left is None or right is None:
                    return None
                values = map(operator.mul if atom[0] == forms.MUL else operator.xor, left, right)
            case _:
                return None
        total = [so_far + k * value for so_far, value in zip(total, values)]
    return total


def _pairs(
    scope: OpenPartition, place: Place, pairs: Iterable[tuple[PartitionAccess, PartitionAccess]]
) -> Iterator[tuple[ir.MemAccess, ir.MemAccess]]:
    """Find the pairs in which two units may meet."""
    held = place.held(Level.THREAD)
    overlap = Overlap(
        Values(privileges=scope.shared), None if held is None else held.count, place.held(Level.CLUSTER) is not None
    )
    for pair in pairs:
        a, b = (overlap.memo.footprint(access.view.elem, shape, index, known) for access, shape, index, known in pair)
        if overlap.meet(a, b, scope.above, scope.handle.privilege):
            yield pair[0][0], pair[1][0]


class _Walk:
    """Through the text once, calls entered: what is read and written in the scopes of partitions, with indices as
    linear forms.  A variable that is assigned more than once may have any value; the others are what they were
    declared.
    """

    def __init__(self, place: Place, params: Iterable[ir.Param], body: ir.Body, reads: set[int] | None):
        self.reads = reads
        self.scopes: list[Any] = []
        self.open: list[Any] = []
        held = place.held(Level.THREAD)
        self.values = Values(threads=None if held is None else held.count)
        self.frame: Frame = ()
        self.facts = self.values.facts
        self.at = Position(
            {level: forms.unknown((level.word,)) for level in (Level.THREAD, Level.BLOCK, Level.CLUSTER)}, place
        )
        self.changing = set(_changing(body))
        self.bound: dict[Owner, tuple[Frame, ir.Handle]] = {}  # a callee's parameters
        self.numbers = itertools.count()
        self.guards = 0
        blocks = place.held(Level.BLOCK)
        if blocks is not None and blocks.count is not None and not blocks.open:
            self.facts.append(forms.subtract(forms.number(blocks.count - 1), self.at.index[Level.BLOCK]))
        for p in params:
            if isinstance(p, ir.ValueParam) and is_integer(p.var.type):
                self.values.known[(), p.var.uid] = self.values.fresh((), p.var, "start")

    def body(self, body: ir.Body) -> None:
        for s in body:
            self._accesses(s)
            guard = 0 if isinstance(s, (ir.Group, ir.Partition)) else 1
            self.guards += guard
            self._statement(s)
            self.guards -= guard

    def _statement(self, s: ir.Stmt) -> None:
        match s:
            case ir.Declare(var, init):
                self._define(var, init)
            case ir.If(cond, then, other):
                for part, truth in ((then, True), (other, False)):
                    self._inside(part, self._known(cond, truth))
            case ir.For():
                self._loop(s)
            case ir.Group():
                self._entered(self.at.grouped(s), s.body, [])
            case ir.Split():
                for case in s.cases:
                    at, learned = self.at.case(s, case)
                    self._entered(at, case.body, learned)
            case ir.Partition(handle=handle) if (
                handle.origin is ir.Origin.PARTITION and not handle.disjoint and self.frame == ()
            ):
                scope = OpenPartition(handle, dict(self.values.privileges), guards=self.guards)
                self.scopes.append(scope)
                self.open.append(scope)
                self.body(s.body)
                self.open.pop()
            case ir.Call():
                self._call(s)
            case _:
                for inner in bodies(s):
                    self.body(inner)

    def _inside(self, body: ir.Body, learned: list[Form]) -> None:
        mark = len(self.facts)
        self.facts += learned
        self.body(body)
        del self.facts[mark:]

    def _entered(self, at: Position, body: ir.Body, learned: list[Form]) -> None:
        outer, self.at = self.at, at
        self._inside(body, learned)
        self.at = outer

    def _loop(self, s: ir.For) -> None:
        start, stop, step = (self._form(e) for e in (s.start, s.stop, s.step))
        self.values.loops.append(next(self.numbers))
        at = self.values.known[self.frame, s.var.uid] = self.values.loop_variable(self.frame, s.var, start, step)
        last = forms.subtract(forms.subtract(stop, at), forms.number(1))
        self._inside(s.body, [forms.subtract(at, start), last] if forms.is_number(step) and step[0] > 0 else [])
        self.values.loops.pop()

    def _call(self, s: ir.Call) -> None:
        outer, inner = (self.frame, self.at), called(self.frame, next(self.numbers))
        for p, a, handle in zip(s.function.params, s.args, s.handles):
            if isinstance(p, ir.MemParam) and handle is not None:
                self.bound[inner, p.handle.uid] = self.frame, handle
            elif (
                isinstance(p, ir.ValueParam) and is_integer(p.var.type) and not isinstance(a, (ir.ArrayRef, ir.MemView))
            ):
                self.values.known[inner, p.var.uid] = self._form(a)
        self.frame, self.at = inner, self.at.called(s)
        self.changing |= set(_changing(s.function.body))
        self.body(s.function.body)
        self.frame, self.at = outer

    # ---- values -----------------------------------------------------------------------------------------------------

    def _define(self, var: ir.Var, init: ir.Expr | None) -> None:
        if not is_integer(var.type) or var.uid in self.changing:
            return
        value = None if init is None else self._form(init)
        if value is None or any(atom[0] == forms.ANY for atom in forms.atoms([value])):
            # What it is, we do not know; that all threads of its unit agree, we do.
            value = self.values.fresh(self.frame, var, "start")
        self.values.known[self.frame, var.uid] = value

    def _form(self, e: ir.Expr) -> Form:
        self._forget(e)
        return form(e, self.values, self.frame, self.at)

    def _known(self, cond: ir.Expr, truth: bool) -> list[Form]:
        self._forget(cond)
        return facts(cond, truth, self.values, self.frame, self.at)

    def _forget(self, e: ir.Expr) -> None:
        for var in variables(e):
            if var.uid in self.changing:
                self.values.known[self.frame, var.uid] = self.values.anything(next(self.numbers), scalar_of(var.type))

    # ---- accesses ---------------------------------------------------------------------------------------------------

    def _accesses(self, s: ir.Stmt) -> None:
        if not self.open:
            return
        for read in own_expressions(s):
            self._reads(read)
        for e in effects(s):
            if e.access is None:
                continue
            if self.reads is None and e.engine is Engine.THREADS and e.atomic:
                self._note(e.access, None, _WRITES if e.kind.writes else _READS, atomic=True)
            elif e.kind.writes and not _refused_anyway(e):
                self._note(e.access, () if e.extent is Extent.ROWS else e.box, _WRITES)

    def _reads(self, e: ir.Expr) -> None:
        match e:
            case ir.Select(cond, then, other):
                self._reads(cond)
                self._reads_where(cond, True, then)
                self._reads_where(cond, False, other)
                return
            case ir.Logical(op, left, right):
                self._reads(left)
                self._reads_where(left, op == "and", right)
                return
            case ir.Load(access) if self.reads is None or id(access) in self.reads:
                self._note(access, None, _READS)
        for part in children(e):
            self._reads(part)

    def _reads_where(self, cond: ir.Expr, truth: bool, e: ir.Expr) -> None:
        mark = len(self.facts)
        self.facts += self._known(cond, truth)
        self.guards += 1
        self._reads(e)
        self.guards -= 1
        del self.facts[mark:]

    def _note(self, access: ir.MemAccess, box: tuple[int, ...] | None, kind, atomic: bool = False) -> None:
        through = set(self._chain(access.handle))
        scopes = [scope for scope in self.open if ((), scope.handle.uid) in through]
        if not scopes:
            return
        shape, index, known = self._where(access, box)
        for scope in scopes:
            kind(scope).append((access, shape, index, known))
            if atomic:
                scope.atomics.add(id(access))
            elif box is None and self.guards == scope.guards:
                scope.sure.add(id(access))

    def _chain(self, handle: ir.Handle) -> Iterator[Owner]:
        frame, at = self.frame, handle
        while True:
            yield frame, at.uid
            if at.base is not None:
                at = at.base
            elif (frame, at.uid) in self.bound:
                frame, at = self.bound[frame, at.uid]
            else:
                return

    def _where(
        self, access: ir.MemAccess, box: tuple[int, ...] | None
    ) -> tuple[tuple[Form, ...] | None, tuple[Form, ...] | None, tuple[Form, ...]]:
        view = access.view
        shape = None if view.shape is None else tuple(self._form(n) for n in view.shape)
        if box == ():
            return shape, None, tuple(self.facts)
        index = tuple(self._form(i) for i in access.index)
        index, inside = inside_box(index, box or (), (self.frame, self.values.number(access)), self.values)
        if view.obj.spread is ir.Spread.ACROSS:
            rank = forms.unknown((forms.BLOCK,)) if access.block is None else self._form(access.block)
            index, shape = (rank, *index), None if shape is None else (forms.ZERO, *shape)
        return shape, index, (*self.facts, *inside)


# Of memory that atomics of threads or unsafe text change, nothing is read as one value, wherever they stand (`Touch`).
def _refused_anyway(e: Effect) -> bool:
    return e.extent is Extent.ANYWHERE or e.engine is Engine.THREADS and bool(e.atomic)


def _changing(body: ir.Body) -> Iterator[int]:
    """The variables that may have more than one value while they live: all that are assigned, but for the results of
    statements for which they were just declared.
    """
    before: ir.Stmt | None = None
    for s in body:
        for var in () if isinstance(s, (ir.Declare, ir.For)) else assigned(s):
            if not (isinstance(before, ir.Declare) and before.init is None and before.var == var):
                yield var.uid
        for inner in bodies(s):
            yield from _changing(inner)
        before = s
