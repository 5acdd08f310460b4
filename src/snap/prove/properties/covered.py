"""List what is read and written of memory that begins without a value, shared arrays and variables, and which writes
come before a read.

Input: what the walk found; then a read, and the writes of the same memory.  Output: `Touch`es, one for each access; the
writes that come before the read, each with how it does.  Invariant: all reads of such memory are among them; a write
counts only if whoever keeps its path makes it (`When.sure`).  Arrays of registers begin with zeros, and are not looked
at; neither is global memory, which a launch brings.  Whoever and whichever iterations a `Before` allows to choose from,
the write is over before the read, in the order of the text.  Non-goals: whether the writes cover the read
(covered_sets.py).

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

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import atoms_of, below
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.terms import Atom, Poly
from snap._compiler.ir.effects import Extent
from snap._compiler.ir.expressions import Spread
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import BLOCK1, CLUSTER1, Privilege, Vector
from snap._compiler.walk.sites import Local, Site, When
from snap.diag.span import Span
from snap.prove.properties.context import ProofContext
from snap.prove.properties.extents import sizes


@dataclass(slots=True, eq=False)
class Touch:
    """One access.

    store   which memory: equal where it is the same
    writes  it certainly gives its elements a value
    index   the first element, in the dimensions of `shape`, whose elements have so many `bytes`; none of a variable
    sizes   how many elements from there on, in each dimension
    part    of an element, the first byte that is meant, and how many; of a variable, components
    own     only the thread itself sees it: a variable
    rank    of memory spread over a cluster, the block whose part is meant
    known   whether it is known where it is; else it may be anywhere
    atomic  no barrier orders it with another one
    vague   what a thread has read, or made of that, decides where it is, or whether
    number  its place among all of the kernel, in the order of the text: the same whenever they are asked for
    """

    store: object
    name: str
    reads: bool
    writes: bool
    index: tuple[Poly, ...]
    sizes: tuple[int, ...]
    shape: tuple[Poly, ...] | None
    bytes: int
    part: tuple[int, int]
    path: tuple[Cond, ...]
    span: Span
    when: When
    life: When
    own: bool = False
    rank: Poly | None = None
    known: bool = True
    atomic: bool = False
    vague: bool = False
    number: int = -1

    def like(self, other: Touch) -> bool:
        """Return whether both count in the same elements."""
        return self.bytes == other.bytes and self.shape == other.shape and self.part == other.part


def touches(c: ProofContext) -> list[Touch]:
    """In the order of the text."""
    found = [_site(c, s) for s in c.found.sites if not s.root.is_global]
    found += [_local(one) for one in c.found.locals]
    found.sort(key=lambda one: one.when.order)
    for k, one in enumerate(found):
        one.number = k
    return found


def _site(c: ProofContext, s: Site) -> Touch:
    path = s.path
    if s.extent is Extent.ROWS and s.lanes < WARP:
        path = (*path, below(c.terms.modulo(c.walk.thread, WARP), s.lanes))
    width = s.elem.bytes
    part = (0, width)
    if s.part is not None:
        assert isinstance(s.elem, Vector)
        one = s.elem.elem.bytes
        part = (s.part * one, one)
    rank = None
    if s.root.obj.spread is Spread.ACROSS:
        rank = c.walk.block if s.block is None else s.block
    known = s.extent is not Extent.ANYWHERE
    deciding = atoms_of([one for one in path if one not in c.found.defines], s.index)
    return Touch(
        id(s.root),
        s.root.name,
        s.kind.reads,
        s.kind.writes and s.when.sure and known,
        s.index,
        sizes(s),
        s.shape,
        width,
        part,
        path,
        s.span,
        s.when,
        s.life,
        rank=rank,
        known=known,
        atomic=bool(s.atomic),
        vague=any(atom.kind is kinds.ANY and not atom.per.at_least(BLOCK1) for atom in deciding),
    )


def _local(one: Local) -> Touch:
    t = one.var.type
    whole = t.lanes if isinstance(t, Vector) else 1
    part = (0, whole) if one.part is None else (one.part, 1)
    return Touch(
        one.key,
        one.var.name,
        not one.writes,
        one.writes and one.when.sure,
        (),
        (),
        (),
        whole,
        part,
        one.path,
        one.span,
        one.when,
        one.life,
        own=True,
    )


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
