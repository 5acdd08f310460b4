"""Decide whether what is read was written before: which writes come before a read, and whether they cover it.

Input: a read, and the writes of the same memory.  Output: the writes that come before it, each with how it does.
Invariant: whoever and whichever iterations a `Before` allows to choose from, the write is over before the read, in the
order of the text.  Non-goals: whether the writes cover the read (covered_sets.py).

A write comes before a read (`Before`)

  * in the same iteration of the loops around both, earlier in the text; or
  * in an earlier iteration of one of these loops.

Who writes is looked for among all threads of the block, and when, among all iterations of the loops that are around the
write alone; what else the write depends on is the same for both, if it was settled in a common iteration and is one
value for the block (or the thread itself is the one that wrote), and else may be anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from snap._compiler.analysis.exact.terms import Atom
from snap._compiler.ir.types import BLOCK1, CLUSTER1, Privilege
from snap.prove.properties.touches import Touch

MOST_WRITES = 48  # of those that are looked at for one read


@dataclass(slots=True)
class Before:
    """A write, as it comes before the read.

    same     so many of the loops around the two are in the same iteration
    earlier  the next one is in an earlier iteration
    self     the thread that reads has written it; else any of its block
    back     of an earlier one: the iteration so many before; 0 for any of them
    """

    write: Touch
    same: int
    earlier: bool = False
    self: bool = False
    back: int = 0

    @property
    def counted(self) -> Atom | None:
        """The counter that is so many before the read's own."""
        return next(iter(self.write.when.loops[self.same].trip.atoms)) if self.back else None

    def shared(self, atom: Atom) -> bool:
        """Return whether a number is the same one for the read and for the write."""
        if any(atom in loop.trip.atoms for loop in self.write.when.loops[: self.same]):
            return True
        return atom.depth <= self.same and (self.self or atom.per.at_least(self.agreeing))

    @property
    def agreeing(self) -> Privilege:
        """Return the unit whose one value the thread that reads and any that may have written have in common."""
        return BLOCK1 if self.write.rank is None else CLUSTER1

    def at_first(self) -> Iterator[Atom]:
        """Counters of loops of which only the first iteration is known to come."""
        start = self.same + self.earlier
        for loop in self.write.when.loops[start:]:
            if not loop.full:
                yield from loop.trip.atoms

    def counters(self) -> Iterator[Atom]:
        """Counters of which any iteration may be chosen."""
        for loop in self.write.when.loops[self.same + (self.back > 0) :]:
            yield from loop.trip.atoms


def common(a: Touch, b: Touch) -> int:
    """Return how many loops are around both."""
    n = 0
    for one, other in zip(a.when.loops, b.when.loops):
        if one is not other:
            break
        n += 1
    return n


def before(read: Touch, writes: list[Touch]) -> list[Before]:
    """The writes that come before, the nearest first, but those last of which memory decides what they reach; and for
    each how it does.
    """
    found: list[Before] = []
    near = sorted(writes, key=lambda w: (w.vague, w.when.order >= read.when.order, -w.when.order))
    for w in near[:MOST_WRITES]:
        if w.life is not read.life:
            continue
        alive, loops = len(read.life.loops), common(w, read)
        # Atomics of other threads are in no order: neither races nor order looks at two of them.
        who = (True,) if read.own or read.atomic and w.atomic else (True, False)
        if w.when.order < read.when.order and loops >= alive:
            found += [Before(w, loops, self=own) for own in who]
        for k in range(loops - 1, alive - 1, -1):
            found += [Before(w, k, earlier=True, self=own) for own in who]
    return found


def nearest(found: list[Before]) -> list[Before]:
    """Keep, of writes in an earlier iteration, what is done in the iteration before the read.  They are some of those
    that were found, and sets of them are simple: there is no choice of iterations.
    """
    return [replace(b, back=1) if b.earlier else b for b in found if not b.self or b.write.own]


def plainly(read: Touch, found: list[Before]) -> bool:
    """Shown by looking: the thread itself has written the same element, earlier, on the way that leads here."""
    path = set(read.path)
    for b in found:
        w = b.write
        if b.earlier or not b.self or len(w.when.loops) > b.same:
            continue
        if w.rank == read.rank and w.index == read.index and _contains(w, read) and path.issuperset(w.path):
            return True
    return False


def _contains(w: Touch, read: Touch) -> bool:
    if w.bytes != read.bytes or w.shape != read.shape or len(w.sizes) != len(read.sizes):
        return False
    (first, many), (start, wanted) = w.part, read.part
    return first <= start and start + wanted <= first + many and all(a >= b for a, b in zip(w.sizes, read.sizes))
