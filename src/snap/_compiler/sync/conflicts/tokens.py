"""The words of the walk over a function: accesses that happened (tokens), gaps of the text, pairs to order (edges).

An access has a kind, what it does to its elements, an engine, who does it, and if it is atomic an operation, all as
`snap._compiler.ir.effects` has them.  What threads do is over when the statement is; the rest is *in flight* until
somebody waits for it.

  kind      engine      for instance
  READ      THREADS     `v = s[i]`
  WRITE     THREADS     `s[i] = v`
  any       THREADS     atomic, `atomic.add(s, i, v)`
  READ      COPIES      the source of an element's copy, `async_copy(to, source)`
  WRITE     COPIES      its target
  READ      BOXES       the tile that a box is stored from, and the array that one is loaded from
  WRITE     BOXES       the array that a box is stored to; the tile that one is loaded into (`loading`: an mbarrier of
                        its own tells when it has come, see channels.py)
  COMBINE   BOXES       atomic: the array that a box is added to, `async_reduce`
  READ      PRODUCTS    the operands of `wgmma`, tiles or registers
  COMBINE   PRODUCTS    its accumulator, in registers

Besides, tokens stand for what is no access but must be ordered like one: `Said`.  Non-goals: who conflicts with whom
(conflict.py), and what a walk keeps of its paths (paths.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter

from snap._compiler.analysis.linear.footprints import Footprint
from snap._compiler.analysis.linear.overlap import Ages
from snap._compiler.analysis.linear.values import Frame
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import COMBINE, READ, Kind
from snap._compiler.ir.engines import BOXES, COPIES, PRODUCTS, THREADS, Engine, Wait
from snap._compiler.ir.operations import MemoryOrder
from snap._compiler.ir.points import GONE
from snap._compiler.ir.types import Place, Privilege
from snap._compiler.ir.word import Word
from snap.diag.span import Span
from snap.record import record


class GapKind(Word):
    """Name the places of a barrier: next to a statement, or where the condition of a loop is evaluated."""

    BEFORE = "before"
    AFTER = "after"
    CONDITION = "condition"


BEFORE, AFTER, CONDITION = GapKind
ObjectKey = tuple[Frame, object]  # the calls in which it was declared, and its number there
Here = tuple[Frame, int]  # a statement in the calls in which it is walked
GapKey = tuple[Frame, GapKind, int]  # calls, where, the statement
Role = tuple[int, int]  # the case of a split of the block's threads: its first thread, and how many


RELEASES = (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST)
ACQUIRES = (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST)
# Hold the acquires that have happened; of those that only say what threads of the same block did, the one of True.
ACQUIRED: dict[bool, ObjectKey] = {False: ((), "acquired"), True: ((), "acquired inside")}


def registers(frame: Frame, var: ir.Var) -> ObjectKey:
    """A thread's own array as an object that products in flight use."""
    return (frame, ("registers", var.uid))


def are_registers(obj: ObjectKey) -> bool:
    return isinstance(obj[1], tuple)


class Said(Enum):
    """Name what is ordered like an access, and is not one."""

    WAITED = "waited for"  # for a load, by threads that will load its slot again
    RELEASED = "published"  # by an atomic, what the threads of its group did
    ACQUIRED = "acquired"
    ENDED = GONE
    REPLACED = "written"  # by whatever comes into an array that takes the same bytes

    __hash__ = object.__hash__


def wait_for(t: Token) -> Wait:
    """The least that must be waited for before a conflicting use."""
    return Wait.BOXES_READ if t.engine is BOXES and not t.changes else Wait.all_of(t.engine)


def keeps_block(t: Token) -> bool:
    """Return whether it may still use its block's shared memory when the block would exit.  A TMA store does by what it
    reads, cp.async by what it writes; a wgmma is over when its accumulator is.  TMA loads are waited for by their
    users.
    """
    uses = {BOXES: not t.changes, COPIES: t.changes, PRODUCTS: t.changes}
    return uses.get(t.engine, False)


def ends(wait: Wait, t: Token) -> bool:
    """Return whether whoever has waited knows that this one has come to its end."""
    if wait is Wait.BOXES_READ:
        return t.engine is BOXES and not t.changes
    return t.in_flight and not t.loading and Wait.all_of(t.engine) is wait


@record
class Gap:
    """A place between two statements.  `number` orders gaps as they are first met.  parted: whether the cluster has
    arrived at its barrier by hand, and not waited: then it can meet at no other one.
    """

    number: int
    key: GapKey
    place: Place
    depth: int  # of loops that may run more than once
    nested: int  # of all loops
    parted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A handle as it is at run time, in one call: its privilege, whether one unit of its base's has claimed it, rather
    than each unit having its part, and whether its units share no element.  There is one object for each, so they are
    compared by identity.
    """

    key: tuple[Frame, int]
    privilege: Privilege
    claimed: bool = False
    disjoint: bool = False


# Calls; the statement; which of its accesses, in the order in which it makes them, or what is said there.  Of
# registers: what is done to them, the variable, and how many there are.
AccessKey = tuple[Frame, int, "int | Said | tuple[Kind, int, int]"]


@dataclass(eq=False)
class Token:
    """An access that happened.

    It is never changed; `altered` makes another one of it.  (Walks make thousands of them, which is why it is no frozen
    dataclass, and has no slots: a dictionary is copied at once.)
    """

    site: AccessKey
    obj: ObjectKey
    kind: Kind
    names: tuple[Name, ...]  # the handles it was made through, lowest first; those of scopes that ended are dropped
    footprint: Footprint
    name: str
    span: Span
    since: int  # bits: gaps that the walk had crossed when `crossed` was last brought up to date
    crossed: int = 0  # bits: gaps crossed until `since`
    disjoint: tuple[Name, ...] = ()  # of the scopes that ended, those whose units share no element
    ordered: Privilege | None = None  # the largest group that has met at a barrier of the program's since
    announced: frozenset[int] = (
        frozenset()
    )  # barriers in two parts at which its group has arrived since, and not waited
    # where it counts (`aging`): iterations since it was made, or since a loop began that it was made before
    ages: Ages = ()
    engine: Engine = THREADS  # of what is in flight, who does it
    loading: bool = False  # of a box: into shared memory; whoever uses it waits for it
    fills: int = 0  # of a pipeline's memory: stages taken since, at most its depth
    slots: int = 0  # of a pipeline's memory: its depth
    issuer: Privilege | None = None  # of a box: the group for which one thread issues it
    role: Role | None = None  # the role it was made in
    atomic: str = ""  # by which operation elements are changed at once; a load is none the less one of these
    fragment: tuple | None = (
        None  # of a part of an accumulator: which tile; in equal tiles each thread's part is its own
    )
    remote: bool = False  # of another block's part
    born: tuple[int, ...] = ()  # the loops it was made in
    aging: int = 0  # of a copy in flight, or of a pipeline's slot that is numbered: up to which age
    commits: int = -1  # groups committed since, its own not counted
    early: int = 0  # of products, bits: gaps crossed before the last of these
    waited: dict[int, int] = field(default_factory=dict)  # `commits` at each barrier's gap crossed since
    # of boxes and products that were waited for, their engine: they are over, but only those who waited know
    settled: Engine | None = None
    over: Here | None = None  # the wait that ended what was in flight: whoever is to know of its end hears of it later
    # an mbarrier has ordered it before every later use of the array, but not before what comes when the array is gone
    passed: bool = False
    spoken: bool = False  # of what was acquired: the thread itself has acquired since

    def adds_like(self, other: Token) -> bool:
        """Return whether both are products that add to as many registers: such follow each other in order."""
        mine, its = self.site[2], other.site[2]
        if self.kind is not COMBINE or other.kind is not COMBINE:
            return False
        return isinstance(mine, tuple) and isinstance(its, tuple) and mine[2] == its[2]

    @property
    def by_atomics(self) -> bool:
        """Return whether threads do it, by atomics: boxes that are combined have an issuer."""
        return self.atomic != "" and self.issuer is None

    @property
    def in_flight(self) -> bool:
        return self.engine is not THREADS

    @property
    def known_to_be_over(self) -> bool:
        """To those who waited for it, or whose waiting it is."""
        return self.settled is not None or self.only_waited

    @property
    def only_waited(self) -> bool:
        """Return whether it says that threads have waited for a load, and no product has shown since that all of them
        have.
        """
        return self.site[2] is Said.WAITED and self.settled is None and not self.in_flight

    @property
    def by_threads(self) -> bool:
        """Return whether threads did it, element by element.  The units that copy boxes and multiply tiles reach memory
        by another way, where barriers have no effect: they see what was written, and do not overwrite what is still
        being read, only after a fence.
        """
        return not self.known_to_be_over and (self.engine is THREADS or self.engine is COPIES)

    @property
    def by_units(self) -> bool:
        """Return whether such a unit does it: boxes and products."""
        return self.engine is BOXES or self.engine is PRODUCTS

    @property
    def waits_alone(self) -> bool:
        """Tell whether a thread can wait for its end by itself, with no barrier: boxes that are stored, and
        products.
        """
        return self.by_units and not self.loading

    def __post_init__(self) -> None:
        self.key = _KEY(self)  # what tells tokens of an object apart
        self.changes = self.kind is not READ or self.atomic != ""  # whether it is more than a read to others


_KEYED = frozenset("site kind names footprint ordered announced ages fills engine settled over passed spoken".split())
_KEY = attrgetter(*sorted(_KEYED))


def altered(t: Token, **parts: object) -> Token:
    """The token with some parts changed."""
    new = Token.__new__(Token)
    new.__dict__ = {**t.__dict__, **parts}
    if not _KEYED.isdisjoint(parts):
        new.key = _KEY(new)
    return new


def merged(a: Token, b: Token, crossed: int, since: int) -> Token:
    """One access on two paths.  What was committed at a barrier that only one of them has passed does not count."""
    waited = (
        {gap: min(n, b.waited.get(gap, n)) for gap, n in a.waited.items() if crossed >> gap & 1} if a.waited else {}
    )
    return altered(
        a, crossed=crossed, since=since, commits=min(a.commits, b.commits), early=a.early | b.early, waited=waited
    )


@dataclass(slots=True)
class Edge:
    """A pair that must be ordered: for whom, and the gaps at which a barrier would do it."""

    first: Token
    second: Token
    participants: Privilege
    candidates: int
    object: str
    last: int = 0  # the last gap before the second use
    younger: int = 0  # of products: groups that have been begun since, at least
    late: int = 0  # of products: the candidates with all of these begun
    unless: tuple[ObjectKey, ...] = ()  # arrays in which threads have their own columns (release_acquire.py)
    narrow: Privilege | None = None  # the group at a stride that needs it, where no barrier is for it alone
