"""What one thread publishes for its group, and learns for it.

Threads hand memory to each other by atomics: what was done before a release is seen by whoever acquires what it stored.
The hardware counts what the releasing thread itself did, or has met at a barrier; the program means what its group did.
So the group meets between what it did and a release by one of its threads, and between an acquire by one of them and
what the others do then.

Input: an atomic, or an access, at its place in the walk.  Output: edges.  The group is the one that the memory belongs
to: the unit of the lowest scope that is open around both.  Of more than a block's memory, it is the block.  Where only
threads of the same block listen, because the atomic has the scope of a block, or because it or the data is in the
block's own shared memory, groups smaller than the block meet, and the block does not: what its threads do to what
belongs to all of them is ordered by barriers anyway.

What counts is shared memory, and global memory that can be handed over: what is written here and read somewhere in the
kernel, and the reverse.  A thread's own part of a partition that is open is nobody else's matter; nor are atomics,
which are not ordered with each other unless they say so themselves.  Where no place between the two belongs to the
group, as in code that each thread runs for itself, the threads speak for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap.analysis.values import Frame
from snap.ir import nodes as ir
from snap.ir import synced
from snap.ir.effects import Effect, Engine, effects, loads, passed
from snap.ir.types import BLOCK1, THREAD1, Level, Privilege
from snap.ir.walk import statements
from snap.sync.tokens import ObjectKey, State, Token

RELEASES = ("release", "acq_rel", "seq_cst")
ACQUIRES = ("acquire", "acq_rel", "seq_cst")
# Hold the acquires that have happened; of those that only say what threads of the same block did, the one of True.
ACQUIRED: dict[bool, ObjectKey] = {False: ((), "acquired"), True: ((), "acquired inside")}


class Publishing:
    """A part of the walk (accesses.py), whose state it uses."""

    def _published(self, s: ir.Atomic, state: State) -> None:
        if self.handed is None:
            return
        inside = s.scope == "block" or self._private(self.objects[(self.frame, s.access.view.obj.uid)])
        if s.order in RELEASES and s.op != "load":
            for obj, held in state.tokens.items():
                if self._shows(obj):
                    self._release(s, obj, list(held.values()), inside, state)
        if s.order in ACQUIRES and s.op != "store" and self.plan is None:
            open_scopes = tuple((frame, scope.handle.uid) for frame, scope in self.scopes)
            self._happened(self._speaker(s, "acquire", open_scopes, state), ACQUIRED[inside], state)

    def _private(self, obj: ObjectKey) -> bool:
        """Whether only the threads of one block use it.  (Copies of boxes in other blocks are theirs.)"""
        return obj in self.shared and not (obj[1] in self.reached and self.shared[obj].obj.spread == "across")

    def _shows(self, obj: ObjectKey) -> str:
        """The kinds of access to an object that a release can publish, and that can need an acquire."""
        return "RWCS" if obj in self.shared else self.handed.get(obj, "")

    def _release(self, s: ir.Atomic, obj: ObjectKey, held: list[Token], inside: bool, state: State) -> None:
        b = self._speaker(s, "release", (), state)
        for t in held:
            if t.kind in self._shows(obj) and t.engine != "load" and not t.passed:
                self._met_for(t, b, self._speaks_for(t.names, obj, inside), obj, state)

    def _learned(self, b: Token, obj: ObjectKey, state: State) -> None:
        """An access after an acquire.  What was opened in between belongs to threads that may not know yet."""
        if self.handed is None or b.kind not in self._shows(obj):
            return
        for inside, acquired in ACQUIRED.items():
            for t in state.tokens.get(acquired, {}).values():
                open_then = tuple(key for key in b.names if key in t.names)
                owner = self._speaks_for(open_then, obj, inside)
                self._met_for(t, b, owner if owner == THREAD1 or inside or self._private(obj) else BLOCK1, obj, state)

    def _speaks_for(self, names: tuple[tuple[Frame, int], ...], obj: ObjectKey, inside: bool) -> Privilege:
        """The group for which one of its threads speaks, of memory held by these names.  Where only threads of its
        block listen, what belongs to the whole block, or to more, is nothing they could not know: wherever two of them
        use it, a barrier is inferred between the uses.  Nor is what one unit has claimed: no other one can hold it
        then.
        """
        chain = self.names[names[0]] if names else ()
        owner = chain[0].privilege if chain and chain[0].privilege.level < Level.BLOCK else BLOCK1
        if not inside and not self._private(obj):
            return owner
        held_by_others = any(
            n.privilege != base.privilege and not n.claimed
            for n, base in zip(chain, chain[1:])
            if n.privilege.level < Level.BLOCK
        )
        return owner if held_by_others and owner.n != self.overlap.threads else THREAD1

    def _met_for(self, t: Token, b: Token, owner: Privilege, obj: ObjectKey, state: State) -> None:
        """The group that must meet between the two, the largest that can, at most."""
        there = [self.memo.footprint(x.footprint.elem, None, None, x.footprint.facts) for x in (t, b)]
        need = self.overlap.group(*there, owner)
        if need is None or t.kind not in "CS" and t.ordered is not None and t.ordered.at_least(need):
            return
        crossed = state.since(t)
        places = {id(gap.place): gap.place for gap in self.gaps.values() if crossed >> gap.number & 1}.values()
        if not any(place.privilege.at_least(need) and place.holds(need) for place in places):
            threads = [
                place.privilege
                for place in places
                if place.privilege.level is Level.THREAD and need.at_least(place.privilege)
            ]
            need = max(threads, key=lambda p: p.n, default=THREAD1)
        if need != THREAD1 or t.kind in "CS":
            self._edge(t, b, need, crossed, obj)

    def _speaker(self, s: ir.Atomic, what: str, names: tuple, state: State) -> Token:
        footprint = self.memo.footprint(s.access.view.elem, None, None, tuple(self.facts))
        return Token(
            (self.frame, s.number, what),
            "A",
            names,
            footprint,
            (),
            None,
            role=self.role,
            name=s.access.handle.name,
            span=s.span,
            crossed=0,
            since=state.crossed,
            born=tuple(self.values.loops),
        )


def handed(function: synced.Function) -> dict[ObjectKey, str] | None:
    """Of a kernel whose atomics order something, the arrays of global memory that are both read and written in it,
    other than by atomics alone, with the kinds of access that matter.  None of any other function.
    """
    if not function.kernel or not _orders(function):
        return None
    done = _done(function, {})
    found: dict[ObjectKey, str] = {}
    for p in function.params:
        kinds = done.get(p.handle.obj.uid, set()) if isinstance(p, ir.MemParam) else set()
        if {"read", "written"} <= kinds:
            found[(), p.handle.obj.uid] = "RWCS"
        elif "read" in kinds and "atomic" in kinds:
            found[(), p.handle.obj.uid] = "RS"
        elif "written" in kinds and "atomic" in kinds:
            found[(), p.handle.obj.uid] = "WC"
    return found


def _orders(function: synced.Function) -> bool:
    return any(
        isinstance(s, ir.Atomic) and s.order != "relaxed" or isinstance(s, ir.Call) and _orders(s.function)
        for s in statements(function.body)
    )


def _done(function: synced.Function, known: dict[int, dict[int, set[str]]]) -> dict[int, set[str]]:
    """By object, how a function touches it, calls entered."""
    if id(function) in known:
        return known[id(function)]
    found: dict[int, set[str]] = {}
    for s in statements(function.body):
        for a in loads(s):
            found.setdefault(a.view.obj.uid, set()).add("read")
        for e in effects(s):
            if e.access is not None:
                found.setdefault(e.access.view.obj.uid, set()).update(_ways(e))
        for p, view, _ in passed(s):
            found.setdefault(view.obj.uid, set()).update(_done(s.function, known).get(p.handle.obj.uid, ()))
    known[id(function)] = found
    return found


def _ways(e: Effect) -> Iterator[str]:
    if e.engine is Engine.THREADS and e.atomic:
        yield "atomic"
        return
    if e.kind.reads and not e.atomic:
        yield "read"
    if e.kind.writes:
        yield "written"


__all__ = ["Publishing", "handed"]
