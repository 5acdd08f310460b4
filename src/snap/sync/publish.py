"""What one thread publishes for its group, and learns for it.

A block hands global memory to another one by an atomic: what was done before a release is seen by whoever acquires what it stored.  The hardware
counts what the releasing thread itself did, or has met at a barrier; the program means what its group did.  So the group meets between what it did
and a release by one of its threads, and between an acquire by one of them and what the others do then.

Input: an atomic, or an access, at its place in the walk.  Output: edges.  What counts is global memory that blocks can hand to each other: what is
written here and read somewhere in the kernel, and the reverse.  A thread's own part of a partition that is open is nobody else's matter; nor are
atomics, which are not ordered with each other unless they say so themselves.  Where no place between the two belongs to the group, as in code that
each thread runs for itself, the threads speak for themselves.
"""

from __future__ import annotations

from snap.ir import nodes as ir
from snap.ir.types import BLOCK1, THREAD1, Level, Privilege
from snap.ir.walk import own_expressions, statements, walk
from snap.sync.tokens import ObjectKey, State, Token

RELEASES = ("release", "acq_rel", "seq_cst")
ACQUIRES = ("acquire", "acq_rel", "seq_cst")
ACQUIRED: ObjectKey = ((), "acquired")  # holds the acquires that have happened


class Publishing:
    """A part of the walk (accesses.py), whose state it uses."""

    def _published(self, s: ir.Atomic, state: State) -> None:
        if not self.handed or s.scope == "block":  # within a block nothing is left to atomics
            return
        if s.order in RELEASES and s.op != "load":
            for obj, held in state.tokens.items():
                if obj in self.handed:
                    self._release(s, obj, list(held.values()), state)
        if s.order in ACQUIRES and s.op != "store" and self.plan is None:
            open_scopes = tuple((frame, scope.handle.uid) for frame, scope in self.scopes)
            self._happened(self._speaker(s, "acquire", open_scopes, state), ACQUIRED, state)

    def _release(self, s: ir.Atomic, obj: ObjectKey, held: list[Token], state: State) -> None:
        b = self._speaker(s, "release", (), state)
        for t in held:
            if t.kind == "A" or t.engine == "load" or t.kind not in self.handed[obj]:
                continue
            owner = self.names[t.names[0]][0].privilege if t.names else BLOCK1
            if owner != THREAD1:
                self._met_for(t, b, t, _within_block(owner), obj, state)

    def _learned(self, b: Token, obj: ObjectKey, state: State) -> None:
        """An access after an acquire."""
        if ACQUIRED not in state.tokens or obj not in self.handed or b.kind == "A" or b.kind not in self.handed[obj]:
            return
        for t in state.tokens[ACQUIRED].values():
            own = self.names[b.names[0]][0].privilege == THREAD1 and b.names[0] in t.names
            if not own:
                self._met_for(t, b, b, BLOCK1, obj, state)

    def _met_for(self, t: Token, b: Token, use: Token, owner: Privilege, obj: ObjectKey, state: State) -> None:
        """The group that must meet between the two, of which `use` is the access; the largest that can, at most."""
        there = [self.memo.footprint(x.footprint.elem, None, None, x.footprint.facts) for x in (t, b)]
        need = self.overlap.group(*there, owner)
        if need is None or t.kind not in "CS" and t.ordered is not None and t.ordered.at_least(need):
            return
        crossed = state.since(t)
        places = {id(gap.place): gap.place for gap in self.gaps.values() if crossed >> gap.number & 1}.values()
        if not any(place.privilege.at_least(need) and place.holds(need) for place in places):
            threads = [place.privilege for place in places if place.privilege.level is Level.THREAD and need.at_least(place.privilege)]
            need = max(threads, key=lambda p: p.n, default=THREAD1)
        if need != THREAD1 or t.kind in "CS":
            self._edge(t, b, need, crossed, obj)

    def _speaker(self, s: ir.Atomic, what: str, names: tuple, state: State) -> Token:
        footprint = self.memo.footprint(s.access.view.elem, None, None, tuple(self.facts))
        return Token((self.frame, id(s), what), "A", names, footprint, (), None, role=self.role, name=s.access.handle.name, span=s.span,
                     crossed=0, since=state.crossed, born=tuple(self.values.loops))  # fmt: skip


def _within_block(p: Privilege) -> Privilege:
    return p if BLOCK1.at_least(p) else BLOCK1


def handed(function: ir.Function) -> dict[ObjectKey, str]:
    """Of a kernel whose atomics order something, the arrays that are both read and written in it, other than by atomics alone, with the kinds of
    access that matter."""
    if not function.kernel or not _orders(function):
        return {}
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


def _orders(function: ir.Function) -> bool:
    return any(
        isinstance(s, ir.Atomic) and s.order != "relaxed" or isinstance(s, ir.Call) and _orders(s.function) for s in statements(function.body)
    )


def _done(function: ir.Function, known: dict[int, dict[int, set[str]]]) -> dict[int, set[str]]:
    """By object, how a function touches it, calls entered."""
    if id(function) in known:
        return known[id(function)]
    found: dict[int, set[str]] = {}

    def note(a: ir.MemAccess, *kinds: str) -> None:
        found.setdefault(a.view.obj.uid, set()).update(kinds)

    for s in statements(function.body):
        for top in own_expressions(s):
            for e in walk(top):
                if isinstance(e, ir.Load):
                    note(e.access, "read")
        match s:
            case ir.Assign(ir.MemTarget(a) | ir.ComponentTarget(ir.MemTarget(a))):
                note(a, "written")
            case ir.Atomic(access=a):
                note(a, "atomic")
            case ir.Collective(op, accesses=accesses):
                for a in accesses:
                    note(a, "written" if op == "stmatrix" else "read")
            case ir.AsyncCopy(target, source):
                note(target, "written")
                note(source, "read")
            case ir.BoxCopy(op, _, a):
                note(a, "read" if op == "load" else "written")
            case ir.Unsafe(memory=memory):
                for _, a in memory:
                    note(a, "read", *(() if a.handle.const else ("written",)))
            case ir.Call(callee, args):
                inner = _done(callee, known)
                for p, a in zip(callee.params, args):
                    if isinstance(a, ir.MemView) and isinstance(p, ir.MemParam):
                        found.setdefault(a.obj.uid, set()).update(inner.get(p.handle.obj.uid, ()))
    known[id(function)] = found
    return found


__all__ = ["Publishing", "handed"]
