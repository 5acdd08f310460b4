"""Collect what is known of a function before it is walked: its context.

Input: a typed function, with what lower.py put into it.  Output: `Context`, a frozen record that the walks (graph.py)
and the rules (conflict.py, release_acquire.py) look things up in: the names and arrays of every call, numbers of loops,
what the text says of arrays (arrays.py).  Questions about single statements are answered when they are first asked, and
the answers kept: they follow from the text alone.  Non-goals: whatever depends on the way to a place of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.overlap import Memo, Overlap, reached
from snap._compiler.analysis.linear.values import Frame, Position, Values, called
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import Effect, effects, passed
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.halves import Halves, has_halves
from snap._compiler.ir.types import Level
from snap._compiler.ir.walk import bodies, bytes_of, callees, children, expressions, own_expressions, statements
from snap._compiler.sync.conflicts.arrays import Use, first_uses, handed, nested_stages, reused, sizes, written
from snap._compiler.sync.conflicts.loops import Setting, assigned, copies_in_turn, cycling, growing, writes
from snap._compiler.sync.conflicts.tokens import BEFORE, GapKey, Here, Name, ObjectKey
from snap._compiler.sync.pipelines.lower import Pipelined
from snap.diag.span import Span


@dataclass(frozen=True, slots=True)
class LoopText:
    """Hold what a loop does to variables (loops.py), and whether it copies to buffers that it takes in turn."""

    assigned: set[int]
    growing: dict[int, int]
    cycling: dict[int, tuple[Setting, ...]]
    copies_in_turn: bool


@dataclass(frozen=True, slots=True)
class Declared:
    """All that is declared, calls entered: a function that is called twice has its arrays and names twice.

    objects   what memory the arrays of each call are
    names     the handles that a handle was made from, itself first
    shared    declarations of arrays in shared memory
    ranges    the bytes that these take
    loops     what unknowns and ages call each loop
    """

    objects: dict[ObjectKey, ObjectKey] = field(default_factory=dict)
    names: dict[tuple[Frame, int], tuple[Name, ...]] = field(default_factory=dict)
    shared: dict[ObjectKey, ir.DeclareShared] = field(default_factory=dict)
    ranges: dict[ObjectKey, tuple[int, int]] = field(default_factory=dict)
    words: dict[ObjectKey, str] = field(default_factory=dict)  # what the program calls them
    loops: dict[Here, int] = field(default_factory=dict)

    def add(self, frame: Frame, handle: ir.Handle, obj: ObjectKey, base: tuple[Name, ...], claimed: bool) -> None:
        self.objects[frame, handle.obj.uid] = obj
        here = (frame, handle.uid)
        self.names[here] = (Name(here, handle.privilege, claimed, handle.disjoint), *base)
        if not base:
            self.words[obj] = handle.name

    def enter(self, frame: Frame, offset: int, body: ir.Body) -> None:
        for s in body:
            match s:
                case ir.DeclareShared():
                    new: ObjectKey = (frame, s.obj.uid)
                    self.add(frame, s.handle, new, (), False)
                    self.shared[new] = s
                    low = offset + s.obj.offset
                    self.ranges[new] = (low, low + bytes_of(s.obj))
                case ir.Partition() | ir.Claim():
                    obj = self.objects[frame, s.handle.obj.uid]
                    self.add(frame, s.handle, obj, self.names[frame, s.base.uid], isinstance(s, ir.Claim))
                case ir.For() | ir.While():
                    self.loops[frame, s.number] = len(self.loops)
                case ir.Call():
                    self._call(frame, offset, s)
            for inner in bodies(s):
                self.enter(frame, offset, inner)

    def _call(self, frame: Frame, offset: int, s: ir.Call) -> None:
        inside = called(frame, s.number)
        for p, a, handle in passed(s):
            self.add(inside, p.handle, self.objects[frame, a.obj.uid], self.names[frame, handle.uid], False)
        self.enter(inside, offset + s.smem_offset, s.function.body)


@dataclass(frozen=True, eq=False)
class Context:
    """unsettled     points whose waits may turn out to be needless (release_slots.py)
    background    arrays that boxes and products use
    reached       arrays that blocks of a cluster write for each other
    reused        arrays whose bytes others take
    written       a kernel's arrays that it writes, and where
    handed        where atomics can hand arrays over, what the kernel does to each; None: no such atomics
    constant      objects that nobody writes
    nested        pipelines of which one stage is taken inside of another
    counted       pipelines whose stages the compiler numbers
    multiplies    whether this function has wgmma, registers_in_flight  whether it or one that it calls has
    """

    function: synced.Function
    pipelined: Pipelined
    declared: Declared
    values: Values
    overlap: Overlap
    memo: Memo
    start: Position
    unsettled: frozenset[int]
    background: frozenset[int]
    reached: frozenset[int]
    reused: frozenset[int]
    written: dict[ObjectKey, Span]
    handed: dict[int, frozenset[Use]] | None
    constant: frozenset[ObjectKey]
    nested: frozenset[int]
    counted: frozenset[int]
    multiplies: bool
    registers_in_flight: bool
    copies: bool
    _kept: dict[object, object] = field(default_factory=dict)  # answers to questions about the text
    _computed: dict[int, ir.Var | None] = field(default_factory=dict)

    # ---- questions about the text -----------------------------------------------------------------------------------

    @property
    def first_uses(self) -> dict[int, Span]:
        """Find where each array is touched first."""
        return self.once(("first",), lambda: first_uses(self.function))

    def deeds(self, s: ir.Stmt) -> tuple[list[ir.Expr], list[Effect]]:
        """List what it reads and what else it does that can be in conflict: registers matter where wgmma use them."""
        found: Any = self._kept.get(s.number)
        if found is None:
            reading, done = _reading(s), [*effects(s)]
            if not self.registers_in_flight:
                reading = [e for e in reading if not isinstance(e, (ir.Elem, ir.ArrayValue))]
                done = [e for e in done if e.var is None]
            found = self._kept[s.number] = reading, done
        return found

    def computes(self, s: ir.Stmt) -> ir.Var | None:
        """The variable that it gives a value, where it does nothing else: a walk that knows what variables are has
        nothing to see in it, and if it is no integer, no walk has.
        """
        found: Any = self._computed.get(s.number, self)
        if found is self:
            found = self._computed[s.number] = self._computes(s) if self.deeds(s) == ([], []) else None
        return found

    def _computes(self, s: ir.Stmt) -> ir.Var | None:
        match s:
            case ir.Declare(var) | ir.Assign(ir.VarTarget(var)):
                return None if s.number in self.pipelined.passes or s.number in self.pipelined.lands else var
            case _:
                return None

    def loop(self, s: ir.While | ir.For) -> LoopText:
        return self.once(("loop", s.number), lambda: self._loop(s))

    def _loop(self, s: ir.While | ir.For) -> LoopText:
        given = assigned(s)
        grown, around = (growing(s), cycling(s)) if given else ({}, {})
        in_turn = self.copies and copies_in_turn(s, (*grown, *around))
        return LoopText(given, grown, around, in_turn)

    def writes(self, s: ir.For) -> bool:
        return self.once(("writes", s.number), lambda: writes(s, self.once(("writes",), dict)))

    def parted(self, gap: GapKey) -> bool:
        """Tell whether a gap lies between the two parts of a barrier of the cluster, in a call between them, too."""
        frame, kind, number = gap
        found = self._parted
        return bool(found) and any(at in found for at in ((kind, number), *((BEFORE, n) for n in frame)))

    @cached_property
    def _parted(self) -> frozenset[tuple[str, int]]:
        marked = (f.body for f in callees(self.function) if has_halves(f.body))
        return frozenset(gap for body in marked for gap in Halves(body).parted)

    def once(self, asked: tuple, answer):
        found = self._kept.get(asked)
        if found is None:
            found = self._kept[asked] = answer()
        return found


_SOMETIMES = frozenset((ir.Select, ir.Logical))
_READING = _SOMETIMES | {ir.Load, ir.Elem, ir.ArrayValue}


def _reading(s: ir.Stmt) -> list[ir.Expr]:
    """The parts of a statement's expressions that read memory or registers, in order; of what is evaluated only
    sometimes, the whole.
    """
    return [] if _READING.isdisjoint(map(type, expressions(s))) else reading_parts(*own_expressions(s))


def reading_parts(*parts: ir.Expr) -> list[ir.Expr]:
    found: list[ir.Expr] = []
    _add_reading(parts, found)
    return found


def _add_reading(parts: tuple[ir.Expr, ...], found: list[ir.Expr]) -> None:
    for e in parts:
        if type(e) in _READING:
            found.append(e)
            if type(e) in _SOMETIMES:
                continue
        inside = children(e)
        if inside:
            _add_reading(inside, found)


_OF_UNITS = frozenset((Engine.BOXES, Engine.PRODUCTS))


def context_of(function: synced.Function, pipelined: Pipelined | None = None) -> Context:
    pipelined = pipelined or Pipelined(function)
    every = list(statements(function.body))
    held = function.place.held(Level.THREAD)
    threads = None if held is None else held.count
    clustered = function.place.held(Level.CLUSTER) is not None
    values, memo = Values(threads=threads), Memo()
    values.systems = memo.systems
    params = [p for p in function.params if isinstance(p, ir.MemParam)]
    declared = Declared()
    for p in params:
        declared.add((), p.handle, ((), p.handle.obj.uid), (), False)
    declared.enter((), 0, function.body)
    start = {Level.THREAD: (forms.THREAD,), Level.BLOCK: (forms.BLOCK,), Level.CLUSTER: (forms.CLUSTER,)}
    done = [e for s in every for e in effects(s)]
    staged = [s for s in every if isinstance(s, ir.Partition) and s.handle.origin is ir.Origin.STAGE]
    engines = {e.engine for e in done}
    by_units = () if engines.isdisjoint(_OF_UNITS) else (e.access for e in done if e.engine in _OF_UNITS)
    called_too = (e.engine for f in callees(function)[1:] for s in statements(f.body) for e in effects(s))
    return Context(
        function,
        pipelined,
        declared,
        values,
        Overlap(values, threads, clustered, sizes(every), memo),
        memo,
        Position({level: forms.unknown(atom) for level, atom in start.items()}, function.place),
        unsettled=frozenset(uid for one in pipelined.lagging for uid in one.waits),
        background=frozenset(a.view.obj.uid for a in by_units if a is not None),
        reached=frozenset(reached(function.body))
        if clustered and function.place[Level.BLOCK].count != 1
        else frozenset(),
        reused=frozenset(reused(every)),
        written={((), uid): span for uid, span in written(every).items()},
        handed=handed(function),
        # a kernel's const memory is written by nobody; a device function's const parameter only not by that function
        constant=frozenset(((), p.handle.obj.uid) for p in params if p.handle.const and function.kernel),
        nested=frozenset(nested_stages(function.body) if staged else ()),
        counted=frozenset(s.handle.obj.uid for s in staged if s.counted),
        multiplies=Engine.PRODUCTS in engines,
        registers_in_flight=Engine.PRODUCTS in engines or Engine.PRODUCTS in called_too,
        copies=Engine.COPIES in engines,
    )
