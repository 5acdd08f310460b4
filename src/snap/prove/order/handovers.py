"""Check what one thread publishes for its group, and learns for it: the group must have met in between.

Input: atomics that release or acquire, and what atomics did before and do behind them, as the walk comes to them.
Output: pairs that nothing orders (`Open`).  Invariant: between an atomic by another thread of the group that a release
speaks for and the release lies a barrier of both, and so it is behind an acquire, and likewise for a plain access to
global memory of which no smaller group than a block has a part then; what copies and TMA do is over before, for the
thread that began it, too; and where behind an acquire TMA touches what threads did, they have fenced it.
`sync/conflicts/release_acquire.py` is never asked.  Non-goals: plain accesses to what a warp or a thread has for
itself, which are compared wherever they are (`order/pairs.py`).

The group is the one whose code holds both, of a block at most; of a cluster, where only one of its blocks speaks.  What
no one else asks for, or tells, in this kernel is not handed over.  Threads that speak each for itself need not meet
where the arrays, and what they release and acquire by, are columns: each element is touched by threads of one number
only, whichever their blocks.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement

from snap._compiler.analysis.linear import forms
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.operations import BITWISE, MemoryOrder, MemoryScope
from snap._compiler.ir.types import BLOCK1, CLUSTER1, GRID1, THREAD1, WARP1, Level, Privilege, Space
from snap.prove.order.elements import TouchedElements
from snap.prove.order.kinds import HANDED, PROXY, START, OpenReason
from snap.prove.order.pairs import Open, Pairs
from snap.prove.order.point import Tokens, WalkPoint
from snap.prove.order.reach import GRID, Reach, begun
from snap.prove.order.sites import LoopAges, MeetingThreads, NamedScope, OrderSite, apart, both

RELEASING = frozenset((MemoryOrder.RELEASE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST))
ACQUIRING = frozenset((MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST))
COMMUTE = frozenset(("add", "min", "max", *BITWISE))


class Handovers:
    """told, asked: the accesses that lie before a release, and behind an acquire.  handed: pairs of which it is known
    only at the end whether anything is handed over by them.  known: sites that stand for others.
    """

    def __init__(self, here: WalkPoint, pairs: Pairs) -> None:
        self.here, self.pairs, self.questions = here, pairs, pairs.questions
        self.cluster = here.threads.cluster
        self.told: dict[tuple, OrderSite] = {}
        self.asked: dict[tuple, OrderSite] = {}
        self.handed: dict[tuple, Open] = {}
        self.known: dict[tuple, OrderSite] = {}

    def between(self, a: OrderSite, b: OrderSite, ages: LoopAges) -> Privilege:
        """Return the group whose code holds both."""
        carried = {loop for loop, d, exact in ages if loop[0] != START and (d or not exact)}
        place = self.here.kernel.place.privilege
        found = CLUSTER1 if place == CLUSTER1 else place if place.level is Level.THREAD else BLOCK1
        cases = [{x[0]: x[1] for x in site.role if isinstance(x, tuple)} for site in (a, b)]
        for one, other in zip(a.around or (), b.around or ()):
            here, group = one
            if one != other or here in carried or cases[0].get(here[1]) != cases[1].get(here[1]):
                break
            if group is not None:
                found = group if group.level is Level.THREAD or group == CLUSTER1 else BLOCK1
        return found

    # ---- who speaks -------------------------------------------------------------------------------------------------

    def access(self, site: OrderSite) -> None:
        """Follow an access that the walk has come to: what it may read of what was acquired, or release, or acquire."""
        here = self.here
        if here.tokens is None:
            return
        acquired = [(a.acquired, a.spoken, ages, st) for (a, ages), st in here.tokens.items() if a.acquired]
        if acquired:
            self.asked[site.key] = site
        anew = site.order in ACQUIRING and site.reads and self.each_for_itself(site)
        for a, again, ages, state in acquired:
            own = site.atomic and not site.line.begun and (again or anew)
            if not site.atomic and not self.of_blocks(site, a):
                continue
            if not own or not self.each_for_itself(a):
                self.meet(a, site, ages, state.over, (False, True))
        if site.order in RELEASING and site.writes:
            self.released(site)
        if anew:
            here.tokens = self.heard(here.tokens)
        if site.order in ACQUIRING and site.reads and here.born:
            here.tokens[self.listening(site, False), ()] = begun(site.line, here.threads.units, site.made)

    def released(self, b: OrderSite) -> None:
        for (a, ages), state in (self.here.tokens or {}).items():
            if a.acquired:
                self.meet(a.acquired, b, ages, state.over, (True, True))
            elif not a.register and not (a is b and not ages):
                self.told[a.key] = a
                if a.around is not None and (a.atomic or self.of_blocks(a, b)):
                    self.meet(a, b, ages, state.over, (True, False))
                    if not a.line.proxy:
                        self.meet(a, b, ages, state.fenced, (True, False), PROXY)

    def of_blocks(self, site: OrderSite, speaker: OrderSite) -> bool:
        """Return whether a plain access is to global memory of which only blocks have parts where another thread
        speaks, and other blocks listen.
        """
        s = speaker.statement
        assert isinstance(s, ir.Atomic)
        inside = s.scope == MemoryScope.BLOCK or speaker.space is Space.SHARED and speaker.rank is None
        held = (x.privilege for x in site.scopes if x.uid in speaker.parts and x.uid in site.parts)
        return site.space is Space.GLOBAL and not inside and next(held, GRID1).at_least(BLOCK1)

    def listening(self, site: OrderSite, spoken: bool) -> OrderSite:
        """Return what stands for an acquire; spoken: whose thread has acquired for itself again."""
        key = (*site.key, "acquired", spoken)
        if key not in self.known:
            memory = (Space.GENERIC, key)
            self.known[key] = replace(site, key=key, memory=memory, register=True, acquired=site, spoken=spoken)
        return self.known[key]

    def heard(self, tokens: Tokens) -> Tokens:
        found: Tokens = {}
        for (site, ages), state in tokens.items():
            if site.acquired and not site.spoken:
                site = self.listening(site.acquired, True)
            found[site, ages] = state if (site, ages) not in found else found[site, ages].both(state)
        return found

    # ---- who must have met ------------------------------------------------------------------------------------------

    def meet(
        self, a: OrderSite, b: OrderSite, ages: LoopAges, reach: Reach, how: tuple[bool, bool], why: OpenReason = HANDED
    ) -> None:
        """how: whether the second one releases, and whether the first one has acquired."""
        unit = self.between(a, b, ages)
        if unit == CLUSTER1 and (self.cluster == 1 or not self.alone(b if how[0] else a)):
            unit = BLOCK1
        itself = bool(a.made & b.made & ~reach.own) and (why is PROXY or a.line.begun)
        if unit == THREAD1 and not itself:
            return
        wide = reach.wide if unit == CLUSTER1 else GRID
        found = self.somewhere(a, b, unit, ages, reach.rows, wide, itself)
        if found is not None:
            pair = Open(a, b, ages, why, found)
            self.handed.setdefault((*pair.key, *how), pair)

    def somewhere(
        self,
        a: OrderSite,
        b: OrderSite,
        unit: Privilege,
        ages: LoopAges,
        rows: tuple[int, ...] | None,
        wide: int,
        itself: bool = False,
    ) -> MeetingThreads | None:
        """Return whether two different threads of a unit come to the two places, whatever they touch, and do not meet;
        itself: or one that is not over.
        """
        return self.questions.meets(self.anywhere(a, unit), self.anywhere(b, unit), ages, itself, rows, wide)

    def anywhere(self, site: OrderSite, unit: Privilege) -> OrderSite:
        key = (*site.key, "anywhere", unit)
        if key not in self.known:
            scopes = (NamedScope(("anywhere", unit), (), unit, (), True, ""),)
            foot = TouchedElements(site.foot.elem, None, None)
            facts = (*site.facts, *site.foot.facts)
            self.known[key] = replace(
                site, key=key, foot=foot, scopes=scopes, facts=facts, space=Space.GENERIC, rank=None, register=False
            )
        return self.known[key]

    def each_for_itself(self, site: OrderSite) -> bool:
        return self.somewhere(site, site, WARP1, (), None, GRID) is not None

    def alone(self, site: OrderSite) -> bool:
        """Return whether no two blocks of a cluster speak."""
        return self.somewhere(site, site, CLUSTER1, (), (-1,) * self.here.threads.units, 0) is None

    # ---- what is handed over ----------------------------------------------------------------------------------------

    def unspoken(self) -> list[Open]:
        """Return, when all has been walked, the pairs by which something is handed over."""
        return [pair for (*_, before, after), pair in self.handed.items() if self.counts(pair, before, after)]

    def counts(self, pair: Open, before: bool, after: bool) -> bool:
        """before: the second one releases; after: the first one has acquired."""
        a, b = pair.first, pair.second
        told, asked = list(self.told.values()) if after else [a], list(self.asked.values()) if before else [b]
        if pair.why is PROXY:
            asked = [y for y in asked if y.line.proxy]
        speaker = b if before else a
        if not any(clash(x, y) and self.can_meet(x, y, speaker) for x in told for y in asked):
            return False
        each = self.each_for_itself(a) and self.each_for_itself(b)
        return not each or not all(self.are_columns(memory) for memory in {a.memory, b.memory})

    def can_meet(self, a: OrderSite, b: OrderSite, speaker: OrderSite) -> bool:
        """Return whether units that hand the array over can make two plain writes, which no one reads, to one element.
        Of other pairs that is taken for granted.
        """
        if a.atomic or b.atomic or a.reads or b.reads or a.space is not Space.GLOBAL:
            return True
        theirs = {scope.uid: scope for scope in b.scopes}
        common = [scope for scope in a.scopes if scope.uid in theirs]
        around = [scope for scope in common if scope.uid in speaker.parts]
        if any(scope.disjoint for scope in common):
            return False
        inside = bool(around) and not around[0].privilege.at_least(BLOCK1)
        ages = tuple((loop, 0, False) for loop in dict.fromkeys((*a.loops, *b.loops)))
        cases = [[]] if inside else [[fact] for fact in apart(*both((forms.BLOCK,)))]
        return any(self.questions.touch(x, y, ages, GRID1, facts) for x, y in ((a, b), (b, a)) for facts in cases)

    def are_columns(self, memory: tuple) -> bool:
        sites = [x for x in self.pairs.sites.values() if x.memory == memory and not x.register]
        return all(self.in_place(a, b) and self.in_place(b, a) for a, b in combinations_with_replacement(sites, 2))

    def in_place(self, a: OrderSite, b: OrderSite) -> bool:
        """Return whether no thread touches by one what a thread of a higher number touches by the other."""
        if a.foot.index is None or b.foot.index is None:
            return False
        _, higher = apart(*both((forms.THREAD,)))
        ages = tuple((loop, 0, False) for loop in dict.fromkeys((*a.loops, *b.loops)))
        facts = [higher]
        if self.cluster == 1 and self.here.kernel.place.held(Level.CLUSTER) is not None:  # its only block is number 0
            facts += [forms.times(number, -1) for number in both((forms.BLOCK,))]
        return self.questions.touch(a, b, ages, GRID1, facts) is None


def clash(a: OrderSite, b: OrderSite) -> bool:
    """Return whether it matters which comes first."""
    if a.memory != b.memory:
        return False
    if not a.writes and not b.writes:
        return False
    return _asks(a) or _asks(b) or a.atomic != b.atomic or a.atomic not in COMMUTE


def _asks(site: OrderSite) -> bool:
    s = site.statement
    if site.atomic:
        return site.reads and isinstance(s, ir.Atomic) and (s.target is not None or s.op == "cas")
    return site.reads
