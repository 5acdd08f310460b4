"""Find what a statement, with all in it, may do to what has happened: whether a walk has anything to see there.

Input: a statement, and the calls in which it is walked.  Output: `Touches`: the objects that it accesses, whether it
begins asynchronous work, and whether it acts on more than its objects.  Invariant: an access that happened comes
through a statement that it is not concerned by as it went in, but for the gaps that every path through it crosses.
Non-goals: which pairs conflict.
"""

from __future__ import annotations

from enum import Enum, auto

from snap._compiler.analysis.linear.values import Frame, called
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import effects
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.operations import COLLECTIVES, MemoryOrder
from snap._compiler.ir.walk import bodies, expressions
from snap._compiler.sync.conflicts.context import Context
from snap._compiler.sync.conflicts.place import into_roles
from snap._compiler.sync.conflicts.tokens import ObjectKey, Token, registers
from snap.record import record


class ActsOn(Enum):
    """On what a statement acts besides its objects."""

    ALL = auto()  # whatever has happened: a barrier orders it, a loop counts its iterations for it
    IN_FLIGHT = auto()  # it waits for it, or commits it
    OF_ROLES = auto()  # the gaps that a role crosses in its case are its own
    LEAVES_LOOP = auto()  # a way out of a loop around, which must be gone for what follows the loop to be walked
    RETURNS = auto()  # and likewise out of a call

    __hash__ = object.__hash__


_NOTHING: frozenset[ActsOn] = frozenset()
_ALL = frozenset((ActsOn.ALL,))
_WAYS_OUT = frozenset((ActsOn.LEAVES_LOOP, ActsOn.RETURNS))


@record
class Touches:
    """objects  memory, and registers that products use
    begins   asynchronous work, or a wait for loads, by which later ones are told apart
    """

    objects: frozenset[ObjectKey]
    acts: frozenset[ActsOn]
    begins: bool


_ACTS: dict[type, frozenset[ActsOn]] = {
    **dict.fromkeys((synced.Sync, synced.AsyncCommit), frozenset((ActsOn.IN_FLIGHT,))),
    **dict.fromkeys((ir.Break, ir.Continue), frozenset((ActsOn.LEAVES_LOOP,))),
    ir.Return: frozenset((ActsOn.RETURNS,)),
}


class Touching:
    """Answer for a function's statements.  All walks of one context share the answers."""

    def __init__(self, context: Context):
        self.context = context
        self.known: dict[tuple[Frame, int], Touches] = context.once(("touching",), dict)

    def of(self, frame: Frame, s: ir.Stmt) -> Touches:
        found = self.known.get((frame, s.number))
        if found is None:
            found = self.known[frame, s.number] = self._of(frame, s)
        return found

    def _of(self, frame: Frame, s: ir.Stmt) -> Touches:
        objects, acts, begins = self._objects(frame, s), self._acts(s), self._begins(s)
        entered = (s.function.body,) if isinstance(s, ir.Call) else bodies(s)
        inside = called(frame, s.number) if isinstance(s, ir.Call) else frame
        for body in entered:
            for inner in body:
                found = self.of(inside, inner)
                objects |= found.objects
                acts, begins = acts | found.acts, begins or found.begins
        if isinstance(s, (ir.For, ir.While)):
            acts -= {ActsOn.LEAVES_LOOP}
        elif isinstance(s, ir.Call):
            acts -= {ActsOn.RETURNS}
        return Touches(frozenset(objects), acts, begins)

    # Not asked about: scopes, since what happened outside of one does not bear its name; what was acquired, since a
    # loop that is walked again looks only at accesses to objects that something came around of (`Finder.wants`).
    def concerned(self, frame: Frame, s: ir.Stmt, tokens: dict[ObjectKey, dict[tuple, Token]]) -> bool:
        """Return whether something that has happened is touched in there.  Ways out are gone even with nothing: were
        they all passed over, a walk would end at the loop or the call.
        """
        found = self.of(frame, s)
        objects, acts = found.objects, found.acts
        if not acts.isdisjoint(_WAYS_OUT):
            return True
        any_ = ActsOn.ALL in acts
        for obj, held in tokens.items():
            if held and (any_ or obj in objects):
                return True
        return bool(acts) and any(
            ActsOn.IN_FLIGHT in acts and t.in_flight or ActsOn.OF_ROLES in acts and t.role is not None
            for held in tokens.values()
            for t in held.values()
        )

    def _objects(self, frame: Frame, s: ir.Stmt) -> set[ObjectKey]:
        context, found = self.context, set[ObjectKey]()
        objects, pipelined = context.declared.objects, context.pipelined
        for e in effects(s):
            if e.access is not None:
                found.add(objects[frame, e.access.view.obj.uid])
            elif e.var is not None and context.registers_in_flight:
                found.add(registers(frame, e.var))
        for part in expressions(s):
            if type(part) is ir.Load:
                found.add(objects[frame, part.access.view.obj.uid])
            elif context.registers_in_flight and isinstance(part, (ir.Elem, ir.ArrayValue)):
                found.add(registers(frame, part.array.var))
        handed = (*pipelined.passes.get(s.number, ()), *pipelined.lands.get(s.number, ()))
        found.update((frame, uid) for uid in handed)
        match s:
            case ir.Partition() if s.counted:
                found.add(objects[frame, s.handle.obj.uid])
            case ir.DeclareShared():
                found |= self._in_the_same_bytes((frame, s.obj.uid))
        return found

    def _in_the_same_bytes(self, obj: ObjectKey) -> set[ObjectKey]:
        ranges = self.context.declared.ranges
        low, high = ranges[obj]
        return {obj, *(other for other, (first, end) in ranges.items() if first < high and low < end)}

    def _acts(self, s: ir.Stmt) -> frozenset[ActsOn]:
        match s:
            case ir.Collective(op):
                acts = COLLECTIVES[op].barrier
            case ir.Atomic():
                acts = self.context.handed is not None and s.order != MemoryOrder.RELAXED
            case ir.For() | ir.While():
                acts = self.context.loop(s).copies_in_turn
            case ir.Split() if into_roles(s):
                return frozenset((ActsOn.OF_ROLES,))
            case _:
                return _ACTS.get(type(s), _NOTHING)
        return _ALL if acts else _NOTHING

    def _begins(self, s: ir.Stmt) -> bool:
        if isinstance(s, synced.MBarrierWait):
            return s.barrier.uid in self.context.pipelined.awaited
        return any(e.engine is not Engine.THREADS for e in effects(s))
