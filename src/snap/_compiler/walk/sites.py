"""Define what a walk over a kernel leaves behind (evaluate.py): accesses, tests, meetings, and arithmetic that must not
overflow.

Invariant: what is recorded covers every launch: a path holds wherever the access is made, an index is what it is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.terms import Atom, Poly, Terms, number
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.contracts import Contract
from snap._compiler.ir.effects import Extent, Kind
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import Element, Level, Place, Privilege, Scalar, Space
from snap._compiler.walk.ways import inside
from snap.diag.span import Span

Deps = frozenset[int]
NONE: Deps = frozenset()


@dataclass(slots=True, eq=False)
class Root:
    """Storage: a kernel's array, or a shared one.

    shape  its extents; None where it has one dimension, as long as `length` says
    bytes  how large it is
    units  how many of its elements one of the program's is made of: a record is several
    """

    name: str
    obj: ir.MemObject
    shape: tuple[Poly, ...] | None
    length: Poly | None
    bytes: Poly
    units: int = 1

    def elements(self, terms: Terms) -> Poly | None:
        """Say what `len` of it is; None where nobody knows."""
        if self.shape is not None:
            return self.shape[0]
        return None if self.length is None else terms.floor(self.length, self.units)

    @property
    def is_global(self) -> bool:
        return self.obj.offset == 0 and self.obj.space is Space.GLOBAL


@dataclass(slots=True, eq=False)
class Loop:
    """A loop that the walk went through once, for any of its iterations.

    trip   the number of the iteration, from 0 on.  Its range may stand for the loop's condition: where the bounds are
           numbers, no path says `trip <= trip.high`
    full   nothing leaves it early: each number for which its condition holds is that of an iteration
    trips  how many iterations the bounds allow, and where `full`, how many there are; None where they do not tell
    """

    trip: Poly
    full: bool
    trips: Poly | None
    span: Span


@dataclass(slots=True, eq=False)
class When:
    """When something is done, as far as the text tells.

    order   its place among all that the walk came by
    loops   those around it, the outermost first
    sure    every thread that keeps the path does it: none has left before, other than by a condition that the path has
    """

    order: int
    loops: tuple[Loop, ...]
    sure: bool


NEVER = When(0, (), False)


@dataclass(slots=True, eq=False)
class BranchTest:
    """A condition that decides where a thread goes on: of an `if`, of a loop, of a case of a `split`.

    Of a loop with a counter it is that of any iteration; the one that ends the loop is not among them.
    """

    cond: Cond
    path: tuple[Cond, ...]
    span: Span
    when: When


@dataclass(slots=True, eq=False)
class GroupMeeting:
    """A barrier, or a wait: what makes threads stop until others have come, or until asynchronous work is done.

    kind  by what; `participants` is the group that meets
    """

    kind: PointKind
    participants: Privilege
    path: tuple[Cond, ...]
    span: Span
    when: When


@dataclass(slots=True, eq=False)
class WalkedStatement:
    """One statement, as the walk came by: its own expressions are evaluated where the path holds.  A loop is here
    once for each time that it is entered, and a statement in it once for all iterations of its counter.
    """

    statement: ir.Stmt
    path: tuple[Cond, ...]
    when: When


@dataclass(slots=True, eq=False)
class Entry:
    """A scope in which memory of units of `outer` belongs to units of `inner`, as the walk came there.

    stamp  how many atoms there were: what they are was settled on entry
    """

    handle: ir.Handle
    outer: Privilege
    inner: Privilege
    stamp: int
    span: Span

    @property
    def divides(self) -> bool:
        return self.outer != self.inner

    @property
    def disjoint(self) -> bool:
        return self.handle.disjoint


@dataclass(slots=True, eq=False)
class Site:
    """One access.

    shape  the extents of the array that `index` addresses; None for one dimension
    block  of memory spread over a cluster, the rank of the block that is meant
    part   of an element that is a vector, the component that is meant; None for all of it
    first  of an element of which a part is read, the number of bytes from its beginning; None for all of it
    lanes  of rows that a warp moves, how many of its threads name one
    when   and of shared memory, when it came to life
    vouched  the reason of the `trust` around the call in which it is made; '' where there is none
    """

    kind: Kind
    atomic: str
    root: Root
    elem: Element
    shape: tuple[Poly, ...] | None
    index: tuple[Poly, ...]
    extent: Extent
    box: tuple[int, ...] | None
    path: tuple[Cond, ...]
    chain: tuple[Entry, ...]
    span: Span
    name: str
    block: Poly | None = None
    free: bool = False  # elements outside of the array are left out
    starts: bool = False  # ... but the first one is not before it
    text: str = ""
    part: int | None = None
    first: Poly | None = None
    lanes: int = WARP
    when: When = NEVER
    life: When = NEVER
    vouched: str = ""


@dataclass(slots=True, eq=False)
class Draw:
    """An atomic addition.  result: what it gives back, where that has a name.  cell: where a thread of the block has
    put it, once, if it is what was read there.
    """

    site: Site
    amount: Poly
    result: Poly | None
    cell: Root | None = None


@dataclass(slots=True, eq=False)
class Local:
    """A variable that was declared without a value is read, or gets one.

    part  the component of a vector that is meant; None for all of it
    """

    var: ir.Var
    key: object
    writes: bool
    part: int | None
    path: tuple[Cond, ...]
    span: Span
    when: When
    life: When


@dataclass(slots=True, eq=False)
class Arithmetic:
    """A sum, difference or product of signed integers that must stay in its type."""

    value: Poly
    type: Scalar
    path: tuple[Cond, ...]
    span: Span
    vouched: str = ""


@dataclass(slots=True, eq=False)
class Inside:
    """An index into registers or a table of constants: from 0 to below `size`; or a part that must be a multiple."""

    index: Poly
    size: int
    path: tuple[Cond, ...]
    span: Span
    name: str
    multiple: int = 0
    vouched: str = ""


@dataclass(slots=True, eq=False)
class Divided:
    """A dimension of an array is divided into parts of `by` elements, for the scope in which they have this handle."""

    root: Root
    handle: ir.Handle
    dimension: int
    extent: Poly
    by: Poly
    path: tuple[Cond, ...]
    span: Span


@dataclass(slots=True, eq=False)
class Promise:
    """A condition of a contract, at a call or where a function returns.  trusted: the author vouches for it."""

    what: str
    goal: Cond
    path: tuple[Cond, ...]
    span: Span
    trusted: bool = False


@dataclass(slots=True, eq=False)
class GivenMemory:
    """Hold what a function is given of arrays.  captured: by the functions through which it indexes them."""

    roots: tuple[Root, ...]
    captured: tuple[Poly, ...]


@dataclass(slots=True, eq=False)
class Called:
    """One call.  given: what its arguments are, by name; deps: the arithmetic in them.  by, id: who calls it; unit
    tells the unit that does from others of the same block.  now: what arrays hold, when it returns.
    """

    function: ir.Function
    contract: Contract
    frame: tuple[int, ...]
    given: dict[str, Any]
    deps: Deps
    memory: GivenMemory
    by: Privilege
    unit: Poly
    id: Poly | None
    number: int
    depth: int
    now: dict[str, Any] = field(default_factory=dict)

    @property
    def promises(self) -> bool:
        return bool(self.contract.ensures or self.contract.pairs or self.contract.calls)

    def trusts(self, span: Span) -> bool:
        return any(inside(span, scope) for scope, _ in self.function.trusted)


@dataclass(slots=True, eq=False)
class Pact:
    """A call of a function whose contract speaks of two threads, as one thread has it: where it returns, or behind it.

    names    what conditions can name: numbers, conditions, arrays of them (where.py)
    index    all polynomials in them
    fresh    of the atoms, those of which nothing is known but what the contract says; none where it returns
    count    how many atoms there were
    """

    called: Called
    names: dict[str, object]
    index: tuple[Poly, ...]
    fresh: frozenset[Atom]
    path: tuple[Cond, ...]
    count: int
    span: Span
    trusted: bool = False


@dataclass(slots=True)
class Walked:
    """All that a walk found.

    An access, a test, a meeting and a statement are there as often as they are executed: once for each copy of a loop
    that is run out, and once for all iterations of a loop with a counter (`When.loops`).

    tests, meetings, work  where threads may part, where they meet, and what they do
    locals   variables that were declared without a value, as they are read and written
    loads    of numbers that were read from const memory: where
    given    of numbers that were read from the kernel's arrays: where
    cells    names of shared arrays of which what is read is taken to be what was written (cells.py)
    used     the arithmetic that indices and guards depend on
    defines  of the conditions in paths, those that only say what an atom is
    asserted, unsafe  places
    promises, ends, pacts  of calls of functions with contracts: what one thread has to keep, how threads return, and
             what holds behind
    """

    terms: Terms
    sites: list[Site] = field(default_factory=list)
    tests: list[BranchTest] = field(default_factory=list)
    meetings: list[GroupMeeting] = field(default_factory=list)
    work: list[WalkedStatement] = field(default_factory=list)
    locals: list[Local] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    defines: set[Cond] = field(default_factory=set)
    arithmetic: list[Arithmetic] = field(default_factory=list)
    insides: list[Inside] = field(default_factory=list)
    loads: dict[Atom, Site] = field(default_factory=dict)
    given: dict[Atom, Site] = field(default_factory=dict)
    cells: dict[str, None] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    aliases: dict[int, Deps] = field(default_factory=dict)
    facts: list[Cond] = field(default_factory=list)  # of every launch
    params: dict[str, Poly] = field(default_factory=dict)  # integers, by name
    roots: dict[str, Root] = field(default_factory=dict)  # the kernel's arrays, by name
    promises: list[Promise] = field(default_factory=list)
    ends: list[Pact] = field(default_factory=list)
    pacts: list[Pact] = field(default_factory=list)
    divided: list[Divided] = field(default_factory=list)
    asserted: list[Span] = field(default_factory=list)
    unsafe: list[Span] = field(default_factory=list)
    gave_up: list[tuple[Span, str]] = field(default_factory=list)

    def needed(self) -> list[Arithmetic]:
        """The arithmetic that must not overflow, each place once."""
        todo, seen = list(self.used), set()
        while todo:
            k = todo.pop()
            if k not in seen:
                seen.add(k)
                todo += self.aliases.get(k, NONE)
        found = [a for k, a in enumerate(self.arithmetic) if k in seen]
        return list({(a.value, a.type, a.path, a.span, a.vouched): a for a in found}.values())


class UnitPosition:
    """Locate the units of the current group: the relative index at each level, as ir/nodes.py defines it."""

    __slots__ = ("terms", "index", "place")

    def __init__(self, terms: Terms, index: dict[Level, Poly], place: Place):
        self.terms, self.index, self.place = terms, index, place

    def entered(self, level: Level, index: Poly, place: Place) -> UnitPosition:
        return UnitPosition(self.terms, {**self.index, level: index}, place)

    def grouped(self, s: ir.Group) -> UnitPosition:
        return self._counted(s.privilege, s.outer, s.place)

    def called(self, s: ir.Call) -> UnitPosition:
        place = s.function.place
        if place[place.top].count is None:
            return self.entered(place.top, self.index.get(place.top, number(0)), place)
        return self._counted(place.privilege, s.place, place)

    def _counted(self, p: Privilege, outer: Place, place: Place) -> UnitPosition:
        index, shape = self.index.get(p.level, number(0)), outer.inner(p)
        if shape is not None:
            index = shape.member(index, self.terms.arithmetic, outer.there_are(p.level))
        return self.entered(p.level, index, place)

    def unit(self, target: Privilege, place: Place) -> Poly | None:
        """Return the index of the target's unit; None where it is not known how many units a level holds."""
        result = number(0)
        for k, (level, held) in enumerate((level, held) for level, held in place.levels if level >= target.level):
            if k and result.value != 0:
                if held.count is None:
                    return None
                result = result * held.count
            if level is not Level.GRID:
                result = result + self.index[level]
        return place.shape(target).number(result, self.terms.arithmetic, place.units(target.level))
