"""Order what one thread releases for its group, and acquires for it.

Threads hand memory to each other by atomics: what was done before a release is seen by whoever acquires what it stored.
The hardware counts what the releasing thread itself did, or has met at a barrier; the program means what its group did.
So the group meets between what it did and a release by one of its threads, and between an acquire by one of them and
what the others do then, or release.  What copies and TMA do is waited for before a release, by the thread that began
it, be it the one that releases; and what threads did is fenced before it, where TMA or the tensor cores touch that
behind an acquire.

Input: an atomic, or an access, at its place in the walk.  Output: pairs, and who must meet between them.  The group is
the largest, up to the block, whose code lies between the two: where no such place is, as in code that each thread runs
for itself, the threads speak for themselves.  Up to the cluster, where one thread of all of a cluster's blocks releases
or acquires.  Of plain accesses it is no more than the unit that holds the memory, by the lowest scope that is open
around both; and where only threads of the same block listen, because the atomic has the scope of a block, or because it
or the data is in the block's own shared memory, groups smaller than the block meet, and the block does not: what its
threads do to what belongs to all of them is ordered by barriers anyway.  Atomics, TMA reductions among them, are not
ordered with each other unless they say so themselves, so of them this is not true.

What counts is what comes apart (`Use.comes_apart`): of shared memory all plain accesses; of other arrays, and of
atomics, those beside which the kernel has another access that must come before or after.  Counters and histograms that
nobody reads are not waited for.  A thread's own part of a partition that is open is nobody else's matter.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.values import Frame
from snap._compiler.ir.effects import Kind
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.expressions import Spread
from snap._compiler.ir.operations import MemoryScope
from snap._compiler.ir.types import BLOCK1, CLUSTER1, GRID1, THREAD1, WARP1, Level, Privilege
from snap._compiler.sync.conflicts.arrays import READS_AND_WRITES, Use
from snap._compiler.sync.conflicts.conflict import fenced
from snap._compiler.sync.conflicts.context import Context
from snap._compiler.sync.conflicts.place import Moment
from snap._compiler.sync.conflicts.tokens import (
    ACQUIRED,
    ACQUIRES,
    RELEASES,
    Edge,
    Gap,
    GapKey,
    Name,
    ObjectKey,
    Said,
    Token,
    altered,
)

# Two between which a group must meet; not, if these arrays turn out to be columns (`ReleaseAcquire.counts`).
MustMeet = tuple[Token, Token, Privilege, tuple[ObjectKey, ...]]
Accessed = dict[tuple[ObjectKey, Kind | str], dict[tuple, Token]]


class ReleaseAcquire:
    def __init__(self, context: Context, gaps: dict[GapKey, Gap]):
        self.context, self.gaps = context, gaps
        self.spoken_in: dict[tuple[Frame, int], ObjectKey] = {}
        self.shown: dict[ObjectKey, frozenset[Kind | str]] = {}
        # What is done to each array on some path that leads to a release; and on one that comes from an acquire.
        self.told: Accessed = {}
        self.asked: Accessed = {}

    def released(self, m: Moment) -> Iterator[MustMeet]:
        """Find what a release by one thread speaks of that its group did, with who must meet before it."""
        s = m.atomic
        if self.context.handed is None or s.order not in RELEASES or s.op == "load":
            return
        inside, here = self._inside(m), self._object(m)
        for obj, held in list(m.paths.tokens.items()):
            acquired = obj in ACQUIRED.values()
            if not (shown := self._shows(obj)) and not acquired:
                continue
            b = _speaker(m, Said.RELEASED, obj, (), self.context)
            for t in list(held.values()):
                if acquired:
                    yield from self._meet(t, b, self._all(b), m, (self._speaks_in(t), here))
                elif _seen_as(t) in shown and not t.loading and not t.passed:
                    self.told.setdefault((obj, _seen_as(t)), {})[t.key] = t
                    group = self._all(b) if t.atomic else self._speaks_for(t.names, obj, inside, b)
                    yield from self._meet(t, b, group, m, (obj, here) if t.by_atomics else ())
                    if t.by_threads and obj[1] in self.context.background:
                        yield from self._meet(t, altered(b, engine=Engine.BOXES), group, m)

    def acquires(self, m: Moment) -> None:
        """A thread is about to acquire for itself: from here on it knows what it then acquires, whatever others of its
        group acquired before.
        """
        s = m.atomic
        if self.context.handed is None or s.order not in ACQUIRES or s.op == "store":
            return
        if self._each_for_itself(_speaker(m, Said.ACQUIRED, ACQUIRED[False], (), self.context)):
            for obj in ACQUIRED.values():
                if m.paths.tokens.get(obj):
                    m.paths.regrouped(obj, lambda t: t if t.spoken else altered(t, spoken=True))

    def acquired(self, m: Moment) -> Token | None:
        """That one thread has acquired something for its group."""
        s = m.atomic
        if self.context.handed is None or s.order not in ACQUIRES or s.op == "store":
            return None
        names = self.context.declared.names
        self.spoken_in[m.where.frame, s.number] = self._object(m)
        open_scopes = tuple(names[frame, scope.handle.uid][0] for frame, scope in m.where.scopes)
        return _speaker(m, Said.ACQUIRED, ACQUIRED[self._inside(m)], open_scopes, self.context)

    def learned(self, b: Token, m: Moment) -> Iterator[MustMeet]:
        """An access after an acquire.  What was opened in between belongs to threads that may not know yet."""
        if self.context.handed is None or _seen_as(b) not in self._shows(b.obj):
            return
        for inside, acquired in ACQUIRED.items():
            for t in m.paths.tokens.get(acquired, {}).values():
                self.asked.setdefault((b.obj, _seen_as(b)), {})[b.key] = b
                if b.atomic:
                    if not b.by_atomics or not t.spoken or not self._each_for_itself(t):
                        by = (self._speaks_in(t), b.obj) if b.by_atomics else ()
                        yield from self._meet(t, b, self._all(t), m, by)
                    continue
                open_then = tuple(name for name in b.names if name in t.names)
                owner = self._speaks_for(open_then, b.obj, inside, t)
                alone = owner in (THREAD1, CLUSTER1) or inside or self._private(b.obj)
                yield from self._meet(t, b, owner if alone else BLOCK1, m)

    def counts(self, edge: Edge, made: Collection[Token]) -> bool:
        """When all has been walked: whether such a pair hands something over.  One that is done before a release, and
        one that is done after an acquire, come apart; and not each thread speaks for itself, of what only threads in
        its place of other blocks ask for.
        """
        before, after = edge.second.site[2] is Said.RELEASED, edge.first.site[2] is Said.ACQUIRED
        if before and after:
            if not any(self._apart(t, self.asked) for told in self.told.values() for t in told.values()):
                return False
        elif before:
            if not self._apart(edge.first, self.asked, fenced=edge.second.by_units):
                return False
        elif after and not self._apart(edge.second, self.told):
            return False
        return not edge.unless or not self._are_columns(edge.unless, made)

    def _apart(self, t: Token, others: Accessed, fenced: bool = False) -> bool:
        """Return whether it matters what comes first, this access or one of the others; fenced: of those that are made
        by TMA or the tensor cores.  Of two plain writes, which nobody need read, only where they can meet.
        """
        if not t.atomic and not fenced and (t.obj in self.context.declared.shared or self._is_read(t)):
            return True
        uses = self.uses(t.obj)
        mine = [use for use in uses if use.seen_as() == _seen_as(t)]
        for (obj, seen), accesses in others.items():
            if obj != t.obj or fenced and not any(other.by_units for other in accesses.values()):
                continue
            theirs = [use for use in uses if use.seen_as() == seen]
            if any(use.comes_apart(other) for use in mine for other in theirs):
                if seen is not Kind.WRITE or _seen_as(t) is not Kind.WRITE or t.obj in self.context.declared.shared:
                    return True
                if any(self._overwrites(t, other) for other in accesses.values()):
                    return True
        return False

    def _is_read(self, t: Token) -> bool:
        """Return whether a plain access comes apart from more than plain writes."""
        uses = self.uses(t.obj)
        mine = [use for use in uses if use.seen_as() == _seen_as(t)]
        return any(
            one.comes_apart(other) and (one.reads or other.reads or bool(other.op)) for one in mine for other in uses
        )

    def _overwrites(self, a: Token, b: Token) -> bool:
        """Return whether units that hand an array over can write one element."""
        common = [name for name in a.names if name in b.names]
        if any(name.disjoint for name in common):
            return False
        overlap, one, other = self.context.overlap, a.footprint, b.footprint
        if any(self._varies(atom) for f in (one, other) for atom in forms.atoms(f.index or ())):
            return True
        if common and common[0].privilege.level < Level.BLOCK:
            return overlap.group(one, other, GRID1) is not None
        return overlap.meet(one, other, GRID1, BLOCK1)

    def _varies(self, atom: LinearAtom) -> bool:
        """Return whether it is one value for all blocks, but not all the time: of each it may be another one."""
        plain = atom[2] if atom[0] == forms.OLD else atom
        if plain[0] in (*forms.COMPOUND, forms.THREAD, forms.BLOCK, forms.CLUSTER, forms.COUNT, forms.ANY):
            return False
        given = plain[0] == forms.VAR and plain[1] == () and plain[3] == "start"
        return not given and self.context.values.privileges.get(plain, THREAD1).at_least(GRID1)

    def _are_columns(self, objects: tuple[ObjectKey, ...], made: Collection[Token]) -> bool:
        """Return whether in each of these arrays a thread touches the elements that threads in its place of other
        blocks touch, and nobody else does, as far as the kernel's accesses say: `parts[k * 256 + t]`.
        """
        place, threads = self.context.function.place, self.context.overlap.threads
        alone = place.held(Level.CLUSTER) is not None and place[Level.BLOCK].count == 1
        nothing = {(forms.BLOCK,)} if alone else set()  # the number of a cluster's only block
        return all(_is_columns([t for t in made if t.obj == obj], threads, nothing) for obj in objects)

    def uses(self, obj: ObjectKey) -> frozenset[Use]:
        """Return what the kernel does to an array."""
        handed, uid = self.context.handed, obj[1]
        return handed.get(uid, frozenset()) if handed is not None and isinstance(uid, int) else frozenset()

    def _inside(self, m: Moment) -> bool:
        """Return whether only threads of the same block listen."""
        return m.atomic.scope == MemoryScope.BLOCK or self._private(self._object(m))

    def _object(self, m: Moment) -> ObjectKey:
        return self.context.declared.objects[m.where.frame, m.atomic.access.view.obj.uid]

    def _speaks_in(self, acquired: Token) -> ObjectKey:
        """The array by which it was acquired."""
        return self.spoken_in[acquired.site[:2]]

    def _private(self, obj: ObjectKey) -> bool:
        """Return whether only the threads of one block use it.  (Copies of boxes in other blocks are theirs.)"""
        declared = self.context.declared.shared.get(obj)
        return declared is not None and not (obj[1] in self.context.reached and declared.obj.spread is Spread.ACROSS)

    def _shows(self, obj: ObjectKey) -> frozenset[Kind | str]:
        """The kinds of access to an object that a release can publish, and that can need an acquire."""
        found = self.shown.get(obj)
        if found is None:
            uses = self.uses(obj)
            found = frozenset(u.seen_as() for u in uses if any(map(u.comes_apart, uses)))
            if obj in self.context.declared.shared:
                found |= READS_AND_WRITES
            self.shown[obj] = found
        return found

    def _each_for_itself(self, speaker: Token) -> bool:
        """Return whether not one thread of a group speaks, but several do."""
        here = self.context.memo.footprint(speaker.footprint.elem, None, None, speaker.footprint.facts)
        return self.context.overlap.group(here, here, WARP1) is not None

    def _all(self, speaker: Token) -> Privilege:
        """The group for which one of its threads speaks, of what it did by atomics, at most: the block; the cluster
        where no two of its blocks come there.
        """
        if self.context.function.place.held(Level.CLUSTER) is None:
            return BLOCK1
        here = self.context.memo.footprint(speaker.footprint.elem, None, None, speaker.footprint.facts)
        return BLOCK1 if self.context.overlap.group(here, here, CLUSTER1) == CLUSTER1 else CLUSTER1

    def _speaks_for(self, names: tuple[Name, ...], obj: ObjectKey, inside: bool, speaker: Token) -> Privilege:
        """The group for which one of its threads speaks, of memory held by these names.  Where only threads of its
        block listen, what belongs to the whole block, or to more, is nothing they could not know: wherever two of them
        use it, a barrier is inferred between the uses.  Nor is what one unit has claimed: no other one can hold it
        then.
        """
        chain = self.context.declared.names[names[0].key] if names else ()
        owner = chain[0].privilege if chain and chain[0].privilege.level < Level.BLOCK else BLOCK1
        if not inside and not self._private(obj):
            wide = not chain or chain[0].privilege.at_least(CLUSTER1)
            return self._all(speaker) if wide else owner
        held_by_others = any(
            n.privilege != base.privilege and not n.claimed
            for n, base in zip(chain, chain[1:])
            if n.privilege.level < Level.BLOCK
        )
        return owner if held_by_others and owner.n != self.context.overlap.threads else THREAD1

    def _meet(
        self, t: Token, b: Token, owner: Privilege, m: Moment, by: tuple[ObjectKey, ...] = ()
    ) -> Iterator[MustMeet]:
        """The group that must meet between the two, the largest that can, at most.  by: the arrays by which threads
        speak for themselves, if each of them has its own elements there.  What is in flight the thread itself waits
        for, and what is to be fenced it fences, too.
        """
        memo, overlap = self.context.memo, self.context.overlap
        crossed = m.paths.since(t)
        places = dict.fromkeys(gap.place for gap in self.gaps.values() if crossed >> gap.number & 1)
        if owner == CLUSTER1 and not any(place.privilege == CLUSTER1 for place in places):
            owner = BLOCK1
        before, after = (memo.footprint(x.footprint.elem, None, None, x.footprint.facts) for x in (t, b))
        need = overlap.group(before, after, owner)
        alone = owner != THREAD1 and (t.in_flight or b.site[2] is Said.RELEASED and fenced(t, b))
        if not alone and (need is None or t.ordered is not None and t.ordered.at_least(need)):
            return
        need = need or THREAD1
        if not any(place.privilege.at_least(need) and place.holds(need) for place in places):
            threads = [
                place.privilege
                for place in places
                if place.privilege.level is Level.THREAD and need.at_least(place.privilege)
            ]
            group = max(threads, key=lambda p: p.n, default=THREAD1)
            need = group if overlap.group(before, after, group) is not None else THREAD1
        if need != THREAD1 or alone:
            yield t, b, need, by if by and self._each_for_itself(t) and self._each_for_itself(b) else ()


def _is_columns(made: list[Token], threads: int | None, nothing: set[LinearAtom]) -> bool:
    """Return whether an index is the thread's number, and else multiples of a number that no thread reaches."""
    roles = {t.role for t in made}
    role = roles.pop() if len(roles) == 1 else None
    count = threads if role is None else role[1]
    indices = [t.footprint.index for t in made if t.footprint.index is not None]
    if threads is None or count is None or not made or len(indices) < len(made) or len(set(map(len, indices))) > 1:
        return False
    columns = ([_in_block(index[k], threads) for index in indices] for k in range(len(indices[0])))
    return any(_tells_threads(column, count, nothing) for column in columns)


def _in_block(form: Form, threads: int) -> Form:
    """With the number of a block in the place of a division that tells it: (384 * rank + t) / 384."""
    for atom, factor in form[1]:
        if atom[0] == forms.DIV:
            (more, terms), n = atom[1:]
            rest = dict(terms)
            mine = rest.pop((forms.THREAD,), 0) == 1 and not more and threads <= n
            if mine and not any(f % n for f in rest.values()):
                number = forms.times(forms.unknown(atom), -1)
                for other, f in rest.items():
                    number = forms.add(number, forms.times(forms.unknown(other), f // n))
                form = forms.add(form, forms.times(number, factor))
    return form


def _tells_threads(column: list[Form], count: int, nothing: set[LinearAtom]) -> bool:
    rests: set[tuple[int, int]] = set()
    for form in column:
        rest = dict(form[1])
        mine = rest.pop((forms.THREAD,), 0)
        step = math.gcd(*(factor for atom, factor in rest.items() if atom not in nothing))
        if mine != 1 or 0 < step < count:
            return False
        rests.add((form[0], step))
    steps = math.gcd(*(step for _, step in rests))
    return (steps == 0 or steps >= count) and len({n % steps if steps else n for n, _ in rests}) == 1


def _seen_as(t: Token) -> Kind | str:
    """As others see it."""
    return t.atomic or (Kind.WRITE if t.changes else Kind.READ)


def _speaker(m: Moment, said: Said, obj: ObjectKey, names: tuple[Name, ...], context: Context) -> Token:
    s, where = m.atomic, m.where
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
