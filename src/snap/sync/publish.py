"""What one thread publishes for its group, and learns for it.

Threads hand memory to each other by atomics: what was done before a release is seen by whoever acquires what it stored.
The hardware counts what the releasing thread itself did, or has met at a barrier; the program means what its group did.
So the group meets between what it did and a release by one of its threads, and between an acquire by one of them and
what the others do then.

Input: an atomic, or an access, at its place in the walk.  Output: pairs, and who must meet between them.  The group is
the one that the memory belongs to: the unit of the lowest scope that is open around both.  Of more than a block's
memory, it is the block.  Where only threads of the same block listen, because the atomic has the scope of a block, or
because it or the data is in the block's own shared memory, groups smaller than the block meet, and the block does not:
what its threads do to what belongs to all of them is ordered by barriers anyway.

What counts is shared memory, and global memory that can be handed over: what is written here and read somewhere in the
kernel, and the reverse.  A thread's own part of a partition that is open is nobody else's matter; nor are atomics,
which are not ordered with each other unless they say so themselves.  Where no place between the two belongs to the
group, as in code that each thread runs for itself, the threads speak for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap.ir.effects import Kind
from snap.ir.expressions import Spread
from snap.ir.operations import MemoryScope
from snap.ir.types import BLOCK1, THREAD1, Level, Privilege
from snap.sync.arrays import READS_AND_WRITES
from snap.sync.context import Context
from snap.sync.tokens import ACQUIRED, ACQUIRES, RELEASES, Gap, GapKey, Name, ObjectKey, Said, Token
from snap.sync.where import Moment


class Publishing:
    def __init__(self, context: Context, gaps: dict[GapKey, Gap]):
        self.context, self.gaps = context, gaps

    def released(self, m: Moment) -> Iterator[tuple[Token, Token, Privilege]]:
        """What a release by one thread speaks of that its group did, with who must meet before it."""
        s = m.s
        if self.context.handed is None or s.order not in RELEASES or s.op == "load":
            return
        inside = self._inside(m)
        for obj, held in list(m.paths.tokens.items()):
            if not (shown := self._shows(obj)):
                continue
            b = _speaker(m, Said.RELEASED, obj, (), self.context)
            for t in list(held.values()):
                if _seen_as(t) in shown and not t.loading and not t.passed:
                    yield from self._meet(t, b, self._speaks_for(t.names, obj, inside), m)

    def acquired(self, m: Moment) -> Token | None:
        """That one thread has acquired something for its group."""
        s = m.s
        if self.context.handed is None or s.order not in ACQUIRES or s.op == "store":
            return None
        names = self.context.declared.names
        open_scopes = tuple(names[frame, scope.handle.uid][0] for frame, scope in m.where.scopes)
        return _speaker(m, Said.ACQUIRED, ACQUIRED[self._inside(m)], open_scopes, self.context)

    def learned(self, b: Token, m: Moment) -> Iterator[tuple[Token, Token, Privilege]]:
        """An access after an acquire.  What was opened in between belongs to threads that may not know yet."""
        if self.context.handed is None or _seen_as(b) not in self._shows(b.obj):
            return
        for inside, acquired in ACQUIRED.items():
            for t in m.paths.tokens.get(acquired, {}).values():
                open_then = tuple(name for name in b.names if name in t.names)
                owner = self._speaks_for(open_then, b.obj, inside)
                meets = owner if owner == THREAD1 or inside or self._private(b.obj) else BLOCK1
                yield from self._meet(t, b, meets, m)

    def _inside(self, m: Moment) -> bool:
        """Whether only threads of the same block listen."""
        obj = self.context.declared.objects[m.where.frame, m.s.access.view.obj.uid]
        return m.s.scope == MemoryScope.BLOCK or self._private(obj)

    def _private(self, obj: ObjectKey) -> bool:
        """Whether only the threads of one block use it.  (Copies of boxes in other blocks are theirs.)"""
        declared = self.context.declared.shared.get(obj)
        return declared is not None and not (obj[1] in self.context.reached and declared.obj.spread is Spread.ACROSS)

    def _shows(self, obj: ObjectKey) -> frozenset[Kind]:
        """The kinds of access to an object that a release can publish, and that can need an acquire."""
        shared = obj in self.context.declared.shared
        return READS_AND_WRITES if shared else self.context.handed.get(obj, frozenset())

    def _speaks_for(self, names: tuple[Name, ...], obj: ObjectKey, inside: bool) -> Privilege:
        """The group for which one of its threads speaks, of memory held by these names.  Where only threads of its
        block listen, what belongs to the whole block, or to more, is nothing they could not know: wherever two of them
        use it, a barrier is inferred between the uses.  Nor is what one unit has claimed: no other one can hold it
        then.
        """
        chain = self.context.declared.names[names[0].key] if names else ()
        owner = chain[0].privilege if chain and chain[0].privilege.level < Level.BLOCK else BLOCK1
        if not inside and not self._private(obj):
            return owner
        held_by_others = any(
            n.privilege != base.privilege and not n.claimed
            for n, base in zip(chain, chain[1:])
            if n.privilege.level < Level.BLOCK
        )
        return owner if held_by_others and owner.n != self.context.overlap.threads else THREAD1

    def _meet(self, t: Token, b: Token, owner: Privilege, m: Moment) -> Iterator[tuple[Token, Token, Privilege]]:
        """The group that must meet between the two, the largest that can, at most."""
        memo, overlap = self.context.memo, self.context.overlap
        before, after = (memo.footprint(x.footprint.elem, None, None, x.footprint.facts) for x in (t, b))
        need = overlap.group(before, after, owner)
        if need is None or not t.in_flight and t.ordered is not None and t.ordered.at_least(need):
            return
        crossed = m.paths.since(t)
        places = dict.fromkeys(gap.place for gap in self.gaps.values() if crossed >> gap.number & 1)
        if not any(place.privilege.at_least(need) and place.holds(need) for place in places):
            threads = [
                place.privilege
                for place in places
                if place.privilege.level is Level.THREAD and need.at_least(place.privilege)
            ]
            need = max(threads, key=lambda p: p.n, default=THREAD1)
        if need != THREAD1 or t.in_flight:
            yield t, b, need


def _seen_as(t: Token) -> Kind | None:
    """As others see it: a box that is combined with what is there is a write."""
    return None if t.by_atomics else Kind.WRITE if t.changes else Kind.READ


def _speaker(m: Moment, said: Said, obj: ObjectKey, names: tuple[Name, ...], context: Context) -> Token:
    s, where = m.s, m.where
    return Token(
        (where.frame, s.number, said),
        obj,
        Kind.COMBINE,
        names,
        context.memo.footprint(s.access.view.elem, None, None, where.facts),
        s.access.handle.name,
        s.span,
        m.paths.crossed,
        role=where.role,
        atomic=s.op,
        born=where.loops,
    )
