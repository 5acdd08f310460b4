"""Track who knows that an access is over: the state that is carried from an access along every path after it.

Input: barriers, commits, waits, fences as groups of threads, in the order of the text; effects of statements
(`ir/effects.py`).  Output: for each thread that made the access, the threads that come after it.  Invariant: only what
holds on every path is said, so that a state never says more than the machine's clocks do
(`machine/schedule/clocks.py`); every change makes it larger, and where paths meet the smaller one counts; of the
engines that work beside the threads, a row for each says what PTX says of completion ("Asynchronous operations", "Async
proxy").  Non-goals: which elements are touched.

Threads are told apart by *units* of equal size, the largest that no barrier of the kernel divides.  A set of units is a
number with a bit for each.  A *timeline* is what goes on by itself once a thread has begun it.  What a thread does is
over when its next statement runs.  What an engine does is over for the thread that began it when that thread has waited
for it, and for others when they are ordered behind that wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from snap._compiler.ir.effects import Effect
from snap._compiler.ir.engines import Engine, Wait
from snap.record import record, replace


@record
class Timeline:
    """One row.

    waits     which waits (of `SyncPoint.waits`) end it; none: it ends at once, or when an mbarrier has counted it
    commits   the engine of the `AsyncCommit` that puts it into a group
    proxy     whether it sees memory by the async proxy: what threads did there must be fenced before it
    together  whether one thread's wait is a wait for what its whole warpgroup began
    """

    name: str
    waits: tuple[Wait, ...] = ()
    commits: Engine | None = None
    proxy: bool = False
    together: bool = False

    @property
    def begun(self) -> bool:
        """Return whether it goes on when its statement is over."""
        return self is not THREAD


THREAD = Timeline("thread")
COPY = Timeline("cp.async", (Wait.COPIES,), Engine.COPIES)
LOAD = Timeline("TMA load", proxy=True)
STORE_READ = Timeline("TMA store, reading", (Wait.BOXES, Wait.BOXES_READ), Engine.BOXES, proxy=True)
STORE_WRITE = Timeline("TMA store, writing", (Wait.BOXES,), Engine.BOXES, proxy=True)
PRODUCT = Timeline("wgmma", (Wait.PRODUCTS,), Engine.PRODUCTS, proxy=True, together=True)
# No access: that a thread has passed a wait.  It knows that at once; of the other warps of its warpgroup it knows when
# a product is over that all four have begun since.
PASSED = Timeline("wait", (Wait.PRODUCTS,), Engine.PRODUCTS, together=True)
TABLE = (THREAD, COPY, LOAD, STORE_READ, STORE_WRITE, PRODUCT)


def timeline(effect: Effect, loads: bool) -> Timeline:
    """Choose the timeline of one effect; `loads`: of a box, whether it comes into shared memory."""
    match effect.engine:
        case Engine.COPIES:
            return COPY
        case Engine.PRODUCTS:
            return PRODUCT
        case Engine.BOXES:
            return LOAD if loads else STORE_WRITE if effect.kind.writes else STORE_READ
        case _:
            return THREAD


BLOCK, CLUSTER, GRID = 0, 1, 2  # how far knowledge reaches: `Reach.wide`
MOST_GROUPS = 32  # commits that are counted
NOTHING_YET = -2  # of what only counts from a product on


@record
class Reach:
    """For each unit u of those that made the access: own has u where the very thread that made it knows, rows[u] are
    the units all of whose threads do.  wide: whether all of its cluster, or of the grid, do.
    """

    own: int
    rows: tuple[int, ...]
    wide: int = BLOCK

    def met(self, groups: Sequence[int]) -> Reach:
        """The units of each group have met: what one of them knows, all do."""
        rows = []
        for u, row in enumerate(self.rows):
            there = row | (self.own & 1 << u)
            for g in groups:
                if there & g:
                    row |= g
            rows.append(row)
        return Reach(self.own, tuple(rows), self.wide)

    def learnt(self, of: int, units: int) -> Reach:
        """The units learn of what the units `of` did."""
        return Reach(self.own, tuple(row | units if of >> u & 1 else row for u, row in enumerate(self.rows)), self.wide)

    def widened(self, wide: int, made: int, everyone: int) -> Reach:
        """All of the cluster or grid have met; `made`: the units that made the access."""
        inside = self.met([everyone])
        heard = all(inside.rows[u] for u in range(len(self.rows)) if made >> u & 1)
        return Reach(self.own, inside.rows, max(self.wide, wide)) if heard else inside

    def told(self) -> int:
        """The units that made it of which somebody knows."""
        return self.own | sum(1 << u for u, row in enumerate(self.rows) if row)

    def knowing(self, units: int) -> int:
        """The units that made it of which one of these units knows."""
        return self.own & units | sum(1 << u for u, row in enumerate(self.rows) if row & units)

    def both(self, other: Reach) -> Reach:
        rows = tuple(a & b for a, b in zip(self.rows, other.rows))
        return Reach(self.own & other.own, rows, min(self.wide, other.wide))

    def either(self, other: Reach) -> Reach:
        rows = tuple(a | b for a, b in zip(self.rows, other.rows))
        return Reach(self.own | other.own, rows, max(self.wide, other.wide))


@record
class State:
    """Hold what is known of one access, at some later point.

    over      who knows that it is over
    fenced    who knows that the thread that made it has fenced it since, for the async proxy
    younger   by unit: how many groups were committed since its own was; -1 where its own is not; () where it needs none
    arrived   of barriers whose arrival and wait stand apart, by point: the units that made it of which somebody who has
              arrived knows, as to `over` and as to `fenced`
    touched   of a register: no wgmma.fence since
    lands     of cp.async: the mbarriers at which all of its threads' copies have arrived since
    """

    over: Reach
    fenced: Reach
    younger: tuple[int, ...] = ()
    arrived: tuple[tuple[int, int, int], ...] = ()
    touched: bool = True
    lands: frozenset[int] = frozenset()

    def both(self, other: State) -> State:
        """On either of two paths."""
        theirs = {uid: (a, b) for uid, a, b in other.arrived}
        arrived = tuple((uid, a & theirs[uid][0], b & theirs[uid][1]) for uid, a, b in self.arrived if uid in theirs)
        younger = tuple(map(min, self.younger, other.younger))
        over, fenced = self.over.both(other.over), self.fenced.both(other.fenced)
        return State(over, fenced, younger, arrived, self.touched or other.touched, self.lands & other.lands)

    def either(self, other: State) -> State:
        """Behind two parts of the threads, each of which has gone its own way."""
        arrived = {uid: (a, b) for uid, a, b in self.arrived}
        for uid, a, b in other.arrived:
            x, y = arrived.get(uid, (0, 0))
            arrived[uid] = (x | a, y | b)
        over, fenced = self.over.either(other.over), self.fenced.either(other.fenced)
        younger = tuple(map(max, self.younger, other.younger))
        told = tuple((uid, a, b) for uid, (a, b) in sorted(arrived.items()))
        return State(over, fenced, younger, told, self.touched and other.touched, self.lands | other.lands)

    # ---- what statements do to it ----

    def met(self, groups: Sequence[int]) -> State:
        return replace(self, over=self.over.met(groups), fenced=self.fenced.met(groups))

    def widened(self, wide: int, made: int, everyone: int) -> State:
        over, fenced = (reach.widened(wide, made, everyone) for reach in (self.over, self.fenced))
        return replace(self, over=over, fenced=fenced)

    def fence(self, units: int) -> State:
        """The threads of these units fence what they have done, where it is over."""
        return replace(self, fenced=replace(self.fenced, own=self.fenced.own | self.over.own & units))

    def commit(self, units: int) -> State:
        mine = (n if n == NOTHING_YET or not units >> u & 1 else n + 1 for u, n in enumerate(self.younger))
        return replace(self, younger=tuple(min(n, MOST_GROUPS) for n in mine))

    def multiplied(self, units: int) -> State:
        """Four warps multiply together: who waits for that knows that the others have come so far."""
        younger = tuple(-1 if n == NOTHING_YET and units >> u & 1 else n for u, n in enumerate(self.younger))
        return replace(self, younger=younger)

    def wait(self, units: int, left: int, line: Timeline, warpgroups: Sequence[int]) -> State:
        """The threads of these units wait until at most so many groups are in flight."""
        covered = sum(1 << u for u, n in enumerate(self.younger) if n >= left and units >> u & 1)
        over = replace(self.over, own=self.over.own | covered)
        if line.together:  # a product is one for all four warps
            for g in warpgroups:
                over = over.learnt(g if covered & g else 0, g & covered)
        younger = tuple(MOST_GROUPS if covered >> u & 1 else n for u, n in enumerate(self.younger))
        return replace(self, over=over, younger=younger)

    def arrive(self, uid: int, units: int) -> State:
        """These units arrive at a barrier, and go on."""
        arrived = {u: (a, b) for u, a, b in self.arrived}
        x, y = arrived.get(uid, (0, 0))
        arrived[uid] = (x | self.over.knowing(units), y | self.fenced.knowing(units))
        return replace(self, arrived=tuple((u, a, b) for u, (a, b) in sorted(arrived.items())))

    def lands_at(self, barrier: int) -> State:
        """The copies arrive at an mbarrier when they are over."""
        return replace(self, lands=self.lands | {barrier})

    def awaited(self, uid: int, units: int, wide: int, made: int) -> State:
        """These units have waited for those that arrived; at a barrier of the block, they arrive by it, too."""
        after = self.learns(uid, units, wide, made)
        return after if wide else after.met([units])

    def learns(self, uid: int, units: int, wide: int, made: int) -> State:
        """These units learn of what those know that arrived."""
        over, fenced = self.over, self.fenced
        kept = []
        for u, a, b in self.arrived:
            if u != uid:
                kept.append((u, a, b))
                continue
            over, fenced = over.learnt(a, units), fenced.learnt(b, units)
            if wide:
                over = replace(over, wide=max(over.wide, wide if made & ~a == 0 else BLOCK))
                fenced = replace(fenced, wide=max(fenced.wide, wide if made & ~b == 0 else BLOCK))
        return replace(self, over=over, fenced=fenced, arrived=tuple(kept))


def begun(line: Timeline, units: int, made: int) -> State:
    """Just behind an access by the units `made` of so many."""
    nobody = Reach(0, (0,) * units)
    over = Reach(made, nobody.rows) if not line.begun or line is PASSED else nobody
    first = NOTHING_YET if line is PASSED else -1
    return State(over, nobody, (first,) * units if line.commits else ())
