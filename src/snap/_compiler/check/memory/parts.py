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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.footprints import inside_box
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.overlap import Overlap
from snap._compiler.analysis.linear.values import Frame, Position, Values, called, facts, form, is_integer
from snap._compiler.check.memory.points import UNDECIDED, Counted, HoldsAt, Tested, WayStep, between, holding, negated
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, Extent, accesses, assigned, effects, loads
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.operations import MemoryOrder
from snap._compiler.ir.types import Level, Place, Privilege, scalar_of
from snap._compiler.ir.walk import (
    WAYS_OUT,
    bodies,
    callees,
    children,
    contains,
    own_expressions,
    statements,
    variables,
    ways_out,
)

# An access, its shape, its index, and what is known there.
PartitionAccess = tuple[ir.MemAccess, tuple[Form, ...] | None, tuple[Form, ...] | None, tuple[Form, ...]]
Owner = tuple[Frame, int]  # a handle, in a call


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
    outer: tuple[WayStep, ...] = ()  # the way to it
    steps: dict[int, tuple[WayStep, ...]] = field(default_factory=dict)  # from there to accesses of one element
    atomics: set[int] = field(default_factory=set)  # of the accesses: these may meet each other
    ordered: bool = False  # turns or atomics in it order what its units do

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


@dataclass(frozen=True, slots=True)
class Reached:
    """An access by threads, of one element of an array whose extents are numbers.  path: the way to it; scopes: how
    many steps of it lie before each scope around it, and whose memory that divides.
    """

    access: ir.MemAccess
    index: tuple[Form, ...]
    extents: tuple[int, ...]
    path: tuple[WayStep, ...]
    scopes: tuple[tuple[int, Privilege], ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """Hold what a walk through a function has found: scopes of partitions, and accesses that may be outside.  ordered:
    there are turns, or atomics that order what blocks do.
    """

    scopes: list[OpenPartition]
    reached: list[Reached]
    ordered: bool


def scopes_of(place: Place, params: Iterable[ir.Param], body: ir.Body, parts: set[int]) -> list[OpenPartition]:
    """The scopes of these partitions, with all that is read and written in them."""
    walk = _Walk(place, params, body, None)
    walk.body(body)
    return [scope for scope in walk.scopes if scope.handle.uid in parts]


def looked_through(place: Place, params: Iterable[ir.Param], body: ir.Body, parts: set[int]) -> Looked:
    """The same of the function itself, without its calls, and accesses by constant extents."""
    walk = _Walk(place, params, body, None)
    walk.enters, walk.scoped = False, bool(parts)
    if parts or any(map(walk.sees, body)):
        walk.body(body)
    return Looked([scope for scope in walk.scopes if scope.handle.uid in parts], walk.reached, walk.ordered)


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
        self.ordered, self.enters = False, True  # whether calls are followed
        self.scoped = True  # whether what is in scopes matters: else only accesses by constant extents do
        self.seen: dict[int, bool] = {}  # by the identity of a statement: whether there is such an access
        self.leaves = contains(body, WAYS_OUT)  # whether a statement leaves a loop, or the function
        self.path: list[WayStep] = []  # loops and conditions around this place
        self.entered: list[tuple[int, Privilege]] = []  # the scopes around it: how long the path was, of whose memory
        self.reached: list[Reached] = []
        blocks = place.held(Level.BLOCK)
        if blocks is not None and blocks.count is not None and not blocks.open:
            self.facts.append(forms.subtract(forms.number(blocks.count - 1), self.at.index[Level.BLOCK]))
        for p in params:
            if isinstance(p, ir.ValueParam) and is_integer(p.var.type):
                self.values.known[(), p.var.uid] = self.values.fresh((), p.var, "start")

    def body(self, body: ir.Body) -> None:
        mark = len(self.path)
        for s in body:
            if self.scoped or isinstance(s, ir.Declare) or self.sees(s):
                self._accesses(s)
                self._statement(s)
            if self.leaves and ways_out((s,)):
                self.path.append(UNDECIDED)  # not all that came here go on
        del self.path[mark:]

    def sees(self, s: ir.Stmt) -> bool:
        """Decide whether there is an access by constant extents in a statement."""
        found = self.seen.get(id(s))
        if found is None:
            found = any(_extents(a.view) for a in accesses(s)) or any(
                self.sees(inner) for body in bodies(s) for inner in body
            )
            self.seen[id(s)] = found
        return found

    def _statement(self, s: ir.Stmt) -> None:
        match s:
            case ir.Declare(var, init):
                self._define(var, init)
            case ir.If(cond, then, other):
                known = [self._known(cond, truth) for truth in (True, False)]
                holds = holding(cond, self._form)
                self._inside(then, known[0], Tested(holds))
                self._inside(other, known[1], Tested(negated(holds)))
            case ir.For():
                self._loop(s)
            case ir.Group():
                self._entered(self.at.grouped(s), s.body, [])
            case ir.Split():
                for case in s.cases:
                    at, learned = self.at.case(s, case)
                    first = forms.subtract(self.at.index[s.level], forms.number(case.offset))
                    self._entered(at, case.body, learned, Tested(between(first, None if case.rest else case.size)))
            case ir.Partition(handle=handle) if (
                handle.origin is ir.Origin.PARTITION and not handle.disjoint and self.frame == ()
            ):
                scope = OpenPartition(handle, dict(self.values.privileges), outer=tuple(self.path))
                self.scopes.append(scope)
                self.open.append(scope)
                self._scope(s)
                self.open.pop()
            case ir.Partition() | ir.Claim():
                self._scope(s)
            case ir.Call():
                self._call(s)
            case _:
                for inner in bodies(s):
                    self._inside(inner, [], UNDECIDED)

    def _scope(self, s: ir.Partition | ir.Claim) -> None:
        self.entered.append((len(self.path), s.base.privilege))
        self.body(s.body)
        self.entered.pop()

    def _inside(self, body: ir.Body, learned: list[Form], *steps: WayStep) -> None:
        mark, outer = len(self.facts), len(self.path)
        self.facts += learned
        self.path += steps
        self.body(body)
        del self.facts[mark:], self.path[outer:]

    def _entered(self, at: Position, body: ir.Body, learned: list[Form], *steps: WayStep) -> None:
        outer, self.at = self.at, at
        self._inside(body, learned, *steps)
        self.at = outer

    def _loop(self, s: ir.For) -> None:
        start, stop, step = (self._form(e) for e in (s.start, s.stop, s.step))
        self.values.loops.append(next(self.numbers))
        at = self.values.known[self.frame, s.var.uid] = self.values.loop_variable(self.frame, s.var, start, step)
        last = forms.subtract(forms.subtract(stop, at), forms.number(1))
        counted: WayStep = UNDECIDED
        if forms.is_number(step) and step[0]:
            left = any(not isinstance(way_out, ir.Continue) for way_out in ways_out(s.body))
            trip = (forms.TRIP, self.values.loops[-1])
            counted = Counted(trip, forms.subtract(stop, start), step[0], left)
        self._inside(
            s.body, [forms.subtract(at, start), last] if forms.is_number(step) and step[0] > 0 else [], counted
        )
        self.values.loops.pop()

    def _call(self, s: ir.Call) -> None:
        if not self.enters:  # nothing in there is certain
            if any(_orders(inner) for f in callees(s.function) for inner in statements(f.body)):
                self._ordered()
            return
        outer, inner = (self.frame, self.at), called(self.frame, next(self.numbers))
        for p, a, handle in zip(s.function.params, s.args, s.handles):
            if isinstance(p, ir.MemParam) and handle is not None:
                self.bound[inner, p.handle.uid] = self.frame, handle
            elif (
                isinstance(p, ir.ValueParam) and is_integer(p.var.type) and not isinstance(a, (ir.ArrayRef, ir.MemView))
            ):
                self.values.known[inner, p.var.uid] = self._form(a)
        self.frame, self.at = inner, self.at.called(s)
        outer_leaves, self.leaves = self.leaves, contains(s.function.body, WAYS_OUT)
        self.changing |= set(_changing(s.function.body))
        self._inside(s.function.body, [], UNDECIDED)
        self.frame, self.at = outer
        self.leaves = outer_leaves

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
        if _orders(s):
            self._ordered()
        for read in own_expressions(s) if loads(s) else ():
            self._reads(read)
        for e in effects(s):
            if e.access is None:
                continue
            if self.reads is None and e.engine is Engine.THREADS and e.atomic:
                self._note(e.access, None, _WRITES if e.kind.writes else _READS, atomic=True)
            elif e.kind.writes and not _refused_anyway(e):
                self._note(e.access, () if e.extent is Extent.ROWS else e.box, _WRITES)

    def _ordered(self) -> None:
        self.ordered = True
        for scope in self.open:
            scope.ordered = True

    def _reads(self, e: ir.Expr) -> None:
        match e:
            case ir.Select(cond, then, other):
                self._reads(cond)
                holds = holding(cond, self._form)
                self._reads_where(cond, True, then, holds)
                self._reads_where(cond, False, other, negated(holds))
                return
            case ir.Logical(op, left, right):
                self._reads(left)
                holds = holding(left, self._form)
                self._reads_where(left, op == "and", right, holds if op == "and" else negated(holds))
                return
            case ir.Load(access) if self.reads is None or id(access) in self.reads:
                self._note(access, None, _READS)
        for part in children(e):
            self._reads(part)

    def _reads_where(self, cond: ir.Expr, truth: bool, e: ir.Expr, holds: HoldsAt) -> None:
        mark = len(self.facts)
        self.facts += self._known(cond, truth)
        self.path.append(Tested(holds))
        self._reads(e)
        self.path.pop()
        del self.facts[mark:]

    def _note(self, access: ir.MemAccess, box: tuple[int, ...] | None, kind, atomic: bool = False) -> None:
        through = set(self._chain(access.handle))
        scopes = [scope for scope in self.open if ((), scope.handle.uid) in through]
        fixed = self.reads is None and box is None and _extents(access.view)
        if not scopes and not fixed:
            return
        shape, index, known = self._where(access, box)
        if fixed and index is not None:
            where = tuple(self.path), tuple(self.entered)
            self.reached.append(Reached(access, index[-len(fixed) :], fixed, *where))
        for scope in scopes:
            kind(scope).append((access, shape, index, known))
            if atomic:
                scope.atomics.add(id(access))
            elif box is None:
                scope.steps[id(access)] = tuple(self.path[len(scope.outer) :])

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


def _orders(s: ir.Stmt) -> bool:
    return isinstance(s, ir.Turn) or isinstance(s, ir.Atomic) and s.order != MemoryOrder.RELAXED


def _extents(view: ir.MemView) -> tuple[int, ...]:
    """The extents of an array, where they are numbers."""
    shape = view.shape or ()
    found = tuple(n.value for n in shape if isinstance(n, ir.Const) and type(n.value) is int)
    return found if len(found) == len(shape) else ()


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
