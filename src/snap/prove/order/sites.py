"""One access of the synchronized program, and whether two threads can meet by two of them.

Input: sites, each with the elements that it touches as forms over unknowns (`analysis/`), the scopes it stands in, and
who makes it; for a pair, how far apart the two are in the loops around both, and which threads are ordered already.
Output: no, or whether somebody can meet, with the numbers where a solver gives some.  Invariant: *no* is isl's or z3's
proof that no integers satisfy what is known; the compiler's own solver is not asked.  Non-goals: what orders threads.

Taken as given, and proved elsewhere (`Questions.rests` counts them): units of one partition, in one entry of its
scope, do not meet (*apart*), and signed arithmetic that feeds an index does not leave its type (*overflow*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.solvers.solve import NO, UNKNOWN
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, CLUSTER1, GRID1, THREAD1, Level, Privilege, Space
from snap.diag.span import Span
from snap.prove.order.elements import TouchedElements, in_common
from snap.prove.order.kinds import BOX, FRAGMENT, START
from snap.prove.order.reach import Timeline
from snap.prove.order.reading import Known
from snap.record import record

LoopKey = tuple  # a frame, and the number of a statement
# By loop around both: how many iterations after the first access the second is, and whether that is exact.  By
# (START, loop), for a first access that stands before the loop: how many iterations of it came before the second.
LoopAges = tuple[tuple[tuple, int, bool], ...]


# Of two sites, forms of the first and of the second whose sum, and a number, is not negative: for two threads of a
# block, and for two of different blocks.
Besides = tuple[tuple[tuple[Form, Form, int], ...], tuple[tuple[Form, Form, int], ...]]
NOTHING: Besides = ((), ())


@record
class NamedScope:
    """A name that memory is reached by.  entered: the loops around the statement that made it; trip: which iterations
    of loops that are run out.
    """

    uid: tuple
    trip: tuple
    privilege: Privilege
    entered: tuple[LoopKey, ...]
    disjoint: bool
    name: str


@dataclass(slots=True, eq=False)
class OrderSite:
    """One access.

    scopes    the names it came through, lowest first
    memory    what is compared: the array, or where in the block's shared memory it lies
    rank      of memory of a cluster, whose
    counters  variables that only grow, where the access is made; heads: the same at the top of each loop around
    role      the cases and single threads whose text it stands in: each has a copy of such variables
    made      the units that make it; threads: the same by thread
    counts    the counters that mbarriers need, where the access is made
    loaded    of a TMA load, the mbarrier that counts its bytes, and for which index
    around    groups, calls, cases and loops around; parts: the scopes of memory that are open; of real accesses alone
    acquired  of what stands for an acquire: that; spoken: whether its thread has acquired for itself again
    """

    key: tuple
    name: str
    span: Span
    statement: ir.Stmt
    writes: bool
    reads: bool
    line: Timeline
    memory: tuple
    space: Space
    foot: TouchedElements
    loops: tuple[LoopKey, ...]
    made: int
    threads: int
    atomic: str = ""
    rank: Form | None = None
    scopes: tuple[NamedScope, ...] = ()
    facts: tuple[Form, ...] = ()
    zero: tuple[Form, ...] = ()
    counters: dict[tuple, Form] = field(default_factory=dict)
    heads: dict[LoopKey, dict[tuple, Form]] = field(default_factory=dict)
    register: bool = False
    order: str = ""
    role: tuple = ()
    box: tuple[int, ...] | None = None  # of registers of a wgmma
    counts: dict[tuple, Form] = field(default_factory=dict)
    loaded: tuple[int, Form | None] | None = None
    around: tuple[tuple, ...] | None = None
    parts: tuple[tuple, ...] = ()
    acquired: OrderSite | None = None
    spoken: bool = False


@record
class MeetingThreads:
    """Two threads that may meet: which kind of pair, and whether every index is known (else they may only seem to)."""

    who: str
    decided: bool
    model: tuple[tuple[str, int], ...] = ()


KnownForm = tuple[Form, frozenset[LinearAtom]]  # what is not negative, and the unknowns in it


class SidedSite:
    """A site, in the names of one of the two threads that are compared."""

    def __init__(self, site: OrderSite, change: Callable[[LinearAtom], LinearAtom | None]):
        self.site, self.change = site, change
        self.forms: dict[Form, Form] = {}
        f = site.foot
        self.foot = TouchedElements(f.elem, _all(f.shape, self.renamed), _all(f.index, self.renamed))
        self.zero = [self.renamed(form) for form in site.zero]
        self.rank = None if site.rank is None else self.renamed(site.rank)
        said = dict.fromkeys(self.renamed(form) for form in (*f.facts, *site.facts))
        self.facts: list[KnownForm] = [(form, frozenset(_plain([form]))) for form in said]

    def renamed(self, form: Form) -> Form:
        found = self.forms.get(form)
        if found is None:
            found = self.forms[form] = forms.rename(form, self.change)
        return found


class Questions:
    """Asks whether two sites meet.  threads: of a block; unit: threads that are told apart by barriers; sizes: of
    groups of threads that all variables are one value for, each dividing the next; clustered: blocks a cluster has.
    """

    def __init__(self, values: Known, threads: int, unit: int, sizes: list[int], cluster: int):
        self.values, self.threads, self.unit, self.sizes, self.cluster = values, threads, unit, sizes, cluster
        self.solvers = values.solvers
        self.rests: set[str] = set()
        self.memo: dict[tuple, MeetingThreads | None] = {}
        self.sides: dict[tuple, SidedSite] = {}
        self.besides: Besides = NOTHING
        self.privileges: dict[tuple, Privilege] = {}  # of the variables that `Site.counters` names

    def meets(
        self,
        a: OrderSite,
        b: OrderSite,
        ages: LoopAges,
        own: bool,
        ordered: tuple[int, ...] | None,
        wide: int,
        besides: Besides = NOTHING,
    ) -> MeetingThreads | None:
        """own: whether a thread must not meet itself, too.  ordered: by unit of the first, the units of the second that
        come after it, None for nobody; wide: whether the other blocks of the cluster (1) or all blocks (2) do.
        besides: what else holds of two that nothing orders.
        """
        key = (a.key, b.key, ages, own, ordered, wide, besides)
        if key not in self.memo:
            self.besides = besides
            self.memo[key] = self._meets(a, b, ages, own, ordered, wide)
        return self.memo[key]

    def _meets(self, a, b, ages, own, ordered, wide) -> MeetingThreads | None:
        unit = self._owner(a, b, ages)
        if own and (found := self._ask(a, b, ages, THREAD1, _equal(*both((forms.THREAD,))), "one thread")):
            return found
        if a.register:
            return None
        if unit == THREAD1:
            return None
        rows = [0] * (-(-self.threads // self.unit)) if ordered is None else ordered
        somewhere = self._ask(a, b, ages, BLOCK1, [], "")
        for region in () if somewhere is None else _unordered(rows, a.made, b.made, self.unit):
            if not self._ask(a, b, ages, BLOCK1, region, ""):  # nowhere there, whoever they are
                continue
            for shared, facts in self._in_block(unit, region):
                found = self._ask(a, b, ages, shared, facts, "two threads of a block")
                if found:
                    return found
        if a.space is Space.SHARED and not (self.cluster > 1 and a.rank is not None and b.rank is not None):
            return None
        if unit.level is Level.THREAD or unit == BLOCK1:
            return None
        for shared, facts, who, reach in self._across(a, unit):
            if wide < reach and (found := self._ask(a, b, ages, shared, facts, who)):
                return found
        return None

    def touch(self, a, b, ages: LoopAges, shared: Privilege, facts: list[Form]) -> MeetingThreads | None:
        """Return whether two threads of which this holds can touch one element, in whichever blocks of `shared` they
        are.
        """
        self.besides = NOTHING
        return self._ask(a, b, ages, shared, facts, "two threads")

    # ---- who ----

    def _owner(self, a: OrderSite, b: OrderSite, ages: LoopAges) -> Privilege:
        """Only threads of one unit of this can meet: that of the lowest name both came through, in one entry of it."""
        carried = {loop for loop, d, exact in ages if d or not exact}
        theirs = {s.uid: s for s in b.scopes}
        for s in a.scopes:
            if s.uid not in theirs:
                continue
            other = theirs[s.uid]
            same = (s.trip, s.entered) == (other.trip, other.entered)  # two roles are not in one iteration
            if s.disjoint or same and not any(loop in carried for loop in s.entered):
                if s.name:
                    self.rests.add(f"units of `{s.name}` do not meet (races)")
                return s.privilege
        return GRID1 if a.space is Space.GLOBAL else CLUSTER1 if self.cluster > 1 else BLOCK1

    def _in_block(self, unit: Privilege, region: list[Form]) -> Iterator[tuple[Privilege, list[Form]]]:
        """Classes of pairs of different threads of one block that nothing orders yet: the largest group both are in
        (variables that are one value for it are shared), and what holds of them.
        """
        t1, t2 = both((forms.THREAD,))
        sizes = [n for n in self.sizes if n < self.threads]
        for k, n in enumerate([1, *sizes]):
            more = [*sizes, 0][k]
            if unit.level is Level.THREAD and n >= unit.shape.extent:
                return
            shared = Privilege(Level.THREAD, more) if more else BLOCK1
            same = [] if not more else _equal(forms.quotient(t1, more), forms.quotient(t2, more))
            if unit.level is Level.THREAD:
                for x, y in zip(unit.shape.digits(t1, forms.FORMS), unit.shape.digits(t2, forms.FORMS)):
                    same = [*same, *_equal(x, y)]
            for one in apart(forms.quotient(t1, n), forms.quotient(t2, n)):
                yield shared, [*same, *region, one]

    def _across(self, a: OrderSite, unit: Privilege) -> Iterator[tuple[Privilege, list[Form], str, int]]:
        if self.cluster > 1:
            for fact in apart(*both((forms.BLOCK,))):
                yield CLUSTER1, [fact], "two blocks of a cluster", 1
        if a.space is Space.GLOBAL and unit.level is Level.GRID:
            of, who = (forms.CLUSTER, "two clusters") if self.cluster > 1 else (forms.BLOCK, "two blocks")
            for fact in apart(*both((of,))):
                yield GRID1, [fact], who, 2

    # ---- the question ----

    def _ask(
        self, a: OrderSite, b: OrderSite, ages: LoopAges, shared: Privilege, facts: list[Form], who: str
    ) -> MeetingThreads | None:
        carried = frozenset(loop for loop, _, _ in ages if loop[0] != START)
        one, other = self._side(a, 1, shared, carried), self._side(b, 2, shared, frozenset())
        starts = None if a.memory == b.memory else (a.memory[1], b.memory[1])
        equal = in_common(one.foot, other.foot, starts)
        zero = [*([] if equal is None else equal[0]), *one.zero, *other.zero, *_together(shared)]
        if one.rank is not None and other.rank is not None:
            zero.append(forms.subtract(one.rank, other.rank))
        asked = [] if equal is None else [*equal[1]]
        for x, y, n in self.besides[shared in (CLUSTER1, GRID1)]:
            asked.append(forms.add(forms.add(one.renamed(x), other.renamed(y)), forms.number(n)))
        grown = [*facts, *asked, *self._iterations(ages, shared), *self._grown(one, other, ages, shared)]
        near = [*one.facts, *other.facts, *((f, frozenset(_plain([f]))) for f in dict.fromkeys(grown))]
        for form in zero:  # most are apart in one dimension already
            mine = set(_plain([form]))
            chosen = [f for f, atoms in near if atoms <= mine]
            if self.solvers.solved([form], [*chosen, *self._ranges([form, *chosen])]) is NO:
                return None
        found: object = UNKNOWN
        for chosen in _nearer(zero, near, [*facts, *asked]):
            found = self.solvers.solved(zero, [*chosen, *self._ranges([*zero, *chosen])])
            if found is NO:
                return None
            if not who:  # it is asked again, of each kind of pair
                break
        opaque = any(_opaque(atom) for f in (a.foot, b.foot) for atom in forms.atoms(f.index or ()))
        decided = equal is not None and not opaque and found is not UNKNOWN
        return MeetingThreads(who, decided, _shown(found))

    def together(self, a: OrderSite, b: OrderSite, ages: LoopAges, shared: Privilege, x: Form, y: Form) -> Form:
        """Add a number of the first thread and one of the second, each in its own iteration."""
        carried = frozenset(loop for loop, _, _ in ages if loop[0] != START)
        one, other = self._side(a, 1, shared, carried), self._side(b, 2, shared, frozenset())
        before = {}
        for loop, d, exact in ages:
            trip = (forms.TRIP, loop)
            if exact and loop in carried and self.values.privileges.get(trip, THREAD1).at_least(shared):
                before[(forms.OLD, 1, trip)] = forms.add(forms.unknown(trip), forms.number(-d))
        found = forms.add(one.renamed(x), other.renamed(y))
        return forms.replaced(found, before) if before else found

    def _side(self, site: OrderSite, side: int, shared: Privilege, carried: frozenset) -> SidedSite:
        """The site as one of two threads makes it: asked for again and again, and renamed once."""
        key = (site, side, shared, carried)
        if key not in self.sides:
            self.sides[key] = SidedSite(site, lambda atom: self._named(atom, side, shared, carried))
        return self.sides[key]

    def _grown(self, one: SidedSite, other: SidedSite, ages: LoopAges, shared: Privilege) -> Iterator[Form]:
        """Counters that only grow have done so since: in one role, in which the second access comes behind the first.
        Of two roles, each with its own copy, neither is ahead of the other because the walk comes to it later.
        """
        b = other.site
        if one.site.role != b.role:
            return
        heads = [b.heads[_loop(at)] for at, d, exact in ages if _loop(at) in b.heads and (d or at[0] == START)]
        for name, x in one.site.counters.items():
            if self.privileges.get(name, THREAD1).at_least(shared):
                for later in (b.counters, *heads):
                    if name in later:
                        yield forms.subtract(other.renamed(later[name]), one.renamed(x))

    def _named(self, atom: LinearAtom, side: int, shared: Privilege, carried: frozenset) -> LinearAtom | None:
        """One name for both threads where both have one value, else one each."""
        if atom[0] in forms.COMPOUND:
            return None
        if atom[0] in (forms.THREAD, forms.BLOCK, forms.CLUSTER):
            return (forms.SIDE, side, atom)
        if atom[0] == forms.COUNT:
            return atom
        if atom[0] == forms.ANY:
            return (forms.SIDE, side, atom)
        mine = self.values.privileges.get(atom, THREAD1).at_least(shared)
        if any(loop in carried for loop in self.values.born.get(atom, ())):
            return (forms.OLD, side, atom)
        return atom if mine else (forms.SIDE, side, atom)

    def _iterations(self, ages: LoopAges, shared: Privilege) -> list[Form]:
        """Say how the two iterations of each loop lie, where both threads go through it together."""
        known: list[Form] = []
        for loop, d, exact in ages:
            began = loop[0] == START
            trip = (forms.TRIP, loop[1] if began else loop)
            if trip not in self.values.privileges or not self.values.privileges[trip].at_least(shared):
                continue
            later = forms.unknown(trip)
            if not began and (d or not exact):
                later = forms.subtract(later, forms.unknown((forms.OLD, 1, trip)))
            elif not began:
                continue
            gap = forms.subtract(later, forms.number(d))
            known += [gap, forms.times(gap, -1)] if exact else [gap]
        return known

    def _ranges(self, xs: list[Form]) -> list[Form]:
        known: list[Form] = []
        for atom in forms.atoms(xs):
            if atom[0] in forms.COMPOUND:
                continue
            plain = atom[2] if atom[0] in (forms.SIDE, forms.OLD) else atom
            x = forms.unknown(atom)
            low, high = self.values.range_of(plain)
            if plain == (forms.BLOCK,) and self.cluster > 1:
                high = self.cluster - 1
            known += [] if low < -(1 << 31) else [forms.subtract(x, forms.number(low))]
            known += [] if high > 1 << 31 else [forms.subtract(forms.number(high), x)]
        return known


def _nearer(zero: list[Form], own: list[KnownForm], about: list[Form]) -> Iterator[list[Form]]:
    """Parts of a system, each larger than the one before: what says something of the unknowns in question and of no
    others, then what reaches further.  Leaving something out can only make more of it satisfiable.
    """
    reached = set(_plain([*about, *zero]))
    size = -1
    for _ in range(3):
        kept = [f for f, atoms in own if atoms <= reached]
        if len(kept) > size:
            yield kept
        size = len(kept)
        near = [atoms for f, atoms in own if atoms & reached and not atoms <= reached]
        if not near:
            return
        reached = reached.union(*near)
    yield [f for f, _ in own]


def _plain(xs: list[Form]) -> list[LinearAtom]:
    return [atom for atom in forms.atoms(xs) if atom[0] not in forms.COMPOUND]


def _loop(at: tuple) -> tuple:
    return at[1] if at[0] == START else at


def both(atom: LinearAtom) -> tuple[Form, Form]:
    """Return what an unknown is for each of the two threads."""
    return forms.unknown((forms.SIDE, 1, atom)), forms.unknown((forms.SIDE, 2, atom))


def apart(x: Form, y: Form) -> list[Form]:
    """Return forms of which one is not negative where two numbers differ."""
    return [forms.subtract(forms.subtract(a, b), forms.number(1)) for a, b in ((x, y), (y, x))]


def _equal(x: Form, y: Form) -> list[Form]:
    return [forms.subtract(x, y), forms.subtract(y, x)]


def _all(xs, change):
    return None if xs is None else tuple(change(f) for f in xs)


def _together(shared: Privilege) -> list[Form]:
    """Both are in one block, or cluster."""
    inside = shared.level is Level.THREAD or shared == BLOCK1
    names = ((forms.BLOCK,), (forms.CLUSTER,)) if inside else ((forms.CLUSTER,),) if shared == CLUSTER1 else ()
    return [forms.subtract(*both(atom)) for atom in names]


def _unordered(rows, first: int, second: int, unit: int) -> Iterator[list[Form]]:
    """Say where two threads are that nothing orders: one alternative for each stretch of units."""
    t1, t2 = both((forms.THREAD,))
    patterns: dict[int, int] = {}
    for u, row in enumerate(rows):
        if first >> u & 1 and second & ~row:
            patterns[second & ~row] = patterns.get(second & ~row, 0) | 1 << u
    for left, firsts in patterns.items():
        for low, high in _stretches(firsts):
            for lo, hi in _stretches(left):
                yield [
                    forms.subtract(t1, forms.number(low * unit)),
                    forms.subtract(forms.number(high * unit - 1), t1),
                    forms.subtract(t2, forms.number(lo * unit)),
                    forms.subtract(forms.number(hi * unit - 1), t2),
                ]


def _stretches(bits: int) -> Iterator[tuple[int, int]]:
    u = 0
    while bits >> u:
        if bits >> u & 1:
            end = u
            while bits >> end & 1:
                end += 1
            yield u, end
            u = end
        else:
            u += 1


def _opaque(atom: LinearAtom) -> bool:
    """Return whether a number comes from memory, or is beyond linear arithmetic."""
    if atom[0] == forms.ANY:
        return not (isinstance(atom[1], tuple) and (BOX in atom[1] or FRAGMENT in atom[1]))
    return atom[0] == forms.MUL or atom[0] == forms.XOR and not forms.is_number(atom[2])


def _shown(found: object) -> tuple[tuple[str, int], ...]:
    """Return the numbers of the two threads and blocks of a model."""
    if not isinstance(found, dict):
        return ()
    shown = []
    for atom, value in found.items():
        if atom[0] == forms.SIDE and atom[2][0] in (forms.THREAD, forms.BLOCK):
            shown.append((f"{atom[2][0]}{atom[1]}", value))
    return tuple(sorted(shown))
