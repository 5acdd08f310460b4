"""Not everybody need wait: barriers at which some only arrive, and barriers in two parts.

Input: the barriers chosen, and the edges they order.  Output: the same marks, some of them in parts.

- A barrier of a block (or of a group of whole warps) is looked at by warps: those that make first uses must come, those
  that make second uses must wait.  Who does neither stays away; who only comes goes on at once.  Where one warp is
  left, it waits by itself.
- An arrival moves up to right behind the last first use, and behind the wait for its end; a wait moves down to right
  before the first second use; into the case of a split, where the case is those threads.  A barrier of a cluster, at
  which all arrive and wait, is taken apart the same way where something stands between.

Invariant: every edge is still ordered by a barrier of which both its ends are part.  A warp that only arrives cannot
come round and arrive again before all have met elsewhere: else the barrier stays whole.  Parts of one point are
control-equivalent, and no other barrier of the same kind of threads stands between them.  Non-goals: barriers that wait
for copies.
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.synced import PointKind, SyncHalf
from snap._compiler.ir.types import BLOCK1, CLUSTER1, WARP1, Level, Privilege
from snap._compiler.ir.walk import callees
from snap._compiler.sync.barriers.chosen import WAITING, Chosen, Parts, settled
from snap._compiler.sync.barriers.cover import Mark, bits, mask_of, reason
from snap._compiler.sync.barriers.groups import Duty
from snap._compiler.sync.barriers.numbers import NumberedGroups, allocate, asked_for, asks
from snap._compiler.sync.barriers.outline import BodyKey, Outline, Spot
from snap._compiler.sync.conflicts.tokens import Edge, Gap, GapKey, Here
from snap.record import replace


def split_barriers(
    function: synced.Function,
    edges: list[Edge],
    gaps: dict[GapKey, Gap],
    marks: dict[GapKey, list[Mark]],
    duties: dict[GapKey, Duty],
) -> tuple[dict[GapKey, list[Mark]], NumberedGroups]:
    """Numbers named barriers as well, with those that the program asks for: one for which none is left stays whole,
    and SNAP020 is raised where that does not help.
    """
    if not any(m.kind in WAITING for found in marks.values() for m in found) and not any(map(asks, callees(function))):
        return marks, {}
    text = Outline(function)
    barriers = [
        Chosen(key, gaps[key].number, m, text.spot(key), key in duties, number=n)
        for n, (key, m) in enumerate(((key, m) for key, found in marks.items() for m in found), start=1)
    ]
    if function.kernel:
        splitter = _Splitter(text, edges, barriers)
        for b in sorted(barriers, key=lambda b: b.gap):
            splitter.consider(b)
    asked = asked_for(text)
    numbers = allocate(text, [*barriers, *asked])
    return _marks(text, barriers, numbers), {b.group: numbers[b] for b in asked if b in numbers}


class _Splitter:
    def __init__(self, text: Outline, edges: list[Edge], barriers: list[Chosen]):
        self.text, self.edges, self.barriers = text, edges, barriers
        at: dict[int, list[Chosen]] = {}
        for b in barriers:
            at.setdefault(b.gap, []).append(b)
        anywhere = mask_of(at)
        # By the number of a barrier, the edges that it orders, each with all barriers that do.
        self.ordered: dict[int, list[tuple[Edge, list[Chosen]]]] = {b.number: [] for b in barriers}
        for e in edges:
            by = [b for gap in bits(e.candidates & anywhere) for b in at[gap] if b.orders(e)]
            for b in by:
                self.ordered[b.number].append((e, by))

    def consider(self, b: Chosen) -> None:
        if (
            b.spot is None
            or b.waits_for_copies
            or b.mark.kind not in (PointKind.BLOCK, PointKind.NAMED, PointKind.CLUSTER)
        ):
            return
        alone = [
            e
            for e, by in self.ordered[b.number]
            if b.orders(e) and not any(other.orders(e) for other in by if other is not b)
        ]
        sides = [(e.first.site[:2], e.second.site[:2]) for e in alone]
        if not alone or any(
            e.first.in_flight or e.first.settled is not None for e in alone
        ):  # who waited for it did so later
            return
        firsts, seconds = (
            {here for first_or_second in pairs for here in self.text.around(first_or_second)} for pairs in zip(*sides)
        )
        firsts.update(here for e in alone if e.first.over is not None for here in self.text.around(e.first.over))
        if b.mark.kind == PointKind.CLUSTER:
            self._in_two(b, b.spot, alone, firsts, seconds)
        else:
            self._for_some(b, b.spot, alone, sides, firsts, seconds)

    # ---- a barrier of a cluster -------------------------------------------------------------------------------------

    def _in_two(self, b: Chosen, spot: Spot, alone: list[Edge], firsts: set[Here], seconds: set[Here]) -> None:
        arrive = self._up(b, spot, firsts, None, CLUSTER1)
        wait = self._down(b, spot, seconds, None, CLUSTER1)
        if arrive != wait:
            b.parts = Parts(spot, alone, wait, arrive)

    # ---- a barrier of warps -----------------------------------------------------------------------------------------

    def _for_some(
        self,
        b: Chosen,
        spot: Spot,
        alone: list[Edge],
        sides: list[tuple[Here, Here]],
        firsts: set[Here],
        seconds: set[Here],
    ) -> None:
        size = self.text.threads if b.mark.kind == PointKind.BLOCK else b.mark.participants.n
        held = b.mark.place.held(Level.THREAD)
        if not size or size % WARP or b.group.stride is not None or held is None or held.count != size:
            return
        everyone = frozenset(range(size // WARP))
        coming = frozenset().union(*(self.text.warps(first, size) for first, _ in sides))
        waiting = frozenset().union(*(self.text.warps(second, size) for _, second in sides))
        if waiting == everyone:
            return
        b.parts = parts = Parts(spot, alone, spot, None, coming, waiting)
        if not self._met_between():
            b.parts = None
            return
        parts.wait = self._down(b, spot, seconds, _threads(waiting), b.group)
        if parts.arriving:
            parts.arrive = self._up(b, spot, firsts, _threads(parts.arriving), b.group)

    def _met_between(self) -> bool:
        """Return whether all of the group meet, wherever some only arrive, before these arrive there again."""
        at: dict[Spot, list[Chosen]] = {}
        for b in self.barriers:
            if b.spot is not None:
                at.setdefault(b.spot, []).append(b)
        pairs = self.text.follows(at, settled)
        return not any(b.parts is not None and b.parts.arriving and (b, b) in pairs for b in self.barriers)

    # ---- motion -----------------------------------------------------------------------------------------------------

    def _up(
        self, b: Chosen, spot: Spot, stop: set[Here], threads: list[tuple[int, int]] | None, group: Privilege
    ) -> Spot:
        """As early as possible: behind the last statement of `stop`, the same barriers on all paths."""
        while True:
            if spot.at == 0:
                outer = self._exit(spot, stop)
                if outer is None or self._blocked(b, outer, group):
                    return spot
                moved = self._up(b, outer, stop, threads, group)
                return moved if moved != outer else spot
            here = self.text.here(spot.body, spot.at - 1)
            if here in stop:
                inner = self._entrance(here, threads)
                if inner is None:
                    return spot
                body, only = inner
                inside = Spot(body, len(self.text.bodies[body][1]))
                if self._blocked(b, inside, group):
                    return spot
                moved = self._up(b, inside, stop, None if only else threads, group)
                return moved if only or moved != inside else spot
            above = Spot(spot.body, spot.at - 1)
            if self._blocked(b, above, group) or not self._passable(b, here, group):
                return spot
            spot = above

    def _down(
        self, b: Chosen, spot: Spot, stop: set[Here], threads: list[tuple[int, int]] | None, group: Privilege
    ) -> Spot:
        """As late as possible: before the first statement of `stop`."""
        while True:
            if spot.at == len(self.text.bodies[spot.body][1]):
                outer = self._exit(spot, stop)
                if outer is None or self._blocked(b, below := Spot(outer.body, outer.at + 1), group):
                    return spot
                moved = self._down(b, below, stop, threads, group)
                return moved if moved != below else spot
            here = self.text.here(spot.body, spot.at)
            if here in stop:
                inner = self._entrance(here, threads)
                if inner is None or self._blocked(b, inside := Spot(inner[0], 0), group):
                    return spot
                moved = self._down(b, inside, stop, None if inner[1] else threads, group)
                return moved if inner[1] or moved != inside else spot
            below = Spot(spot.body, spot.at + 1)
            if self._blocked(b, below, group) or not self._passable(b, here, group):
                return spot
            spot = below

    def _exit(self, spot: Spot, stop: set[Here]) -> Spot | None:
        """Before the scope that a spot stands in, where none of its body matters."""
        here = spot.body[0]
        if (
            here is None
            or here in stop
            or not isinstance(self.text.statement[here], (ir.Partition, ir.Claim))
            or self._leaves(here)
        ):
            return None
        return Spot(*self.text.stands[here])

    def _entrance(self, here: Here, threads: list[tuple[int, int]] | None) -> tuple[tuple, bool] | None:
        """The body of the statement that runs whenever it is reached, for these threads: a scope's, or the case that is
        exactly those threads.
        """
        s = self.text.statement[here]
        if isinstance(s, (ir.Partition, ir.Claim)) and s.body:
            return (here, 0), False
        if isinstance(s, ir.Split) and s.level is Level.THREAD and threads is not None:
            for k, case in enumerate(s.cases):
                if case.body and not case.rest and threads == [(case.offset, case.offset + case.size)]:
                    return (here, k), True
        return None

    def _blocked(self, b: Chosen, spot: Spot, group: Privilege) -> bool:
        """Another barrier of this group (for a cluster: another of the cluster) stands here, and stays before or
        behind.
        """
        return any(spot in other.spots() for other in self.barriers if other is not b and _same_kind(other.mark, group))

    def _passable(self, b: Chosen, here: Here, group: Privilege) -> bool:
        """Return whether the statement comes to its end whenever it begins, with no such barrier inside."""
        if self._leaves(here):
            return False
        for other in self.barriers:
            if other is b or not _same_kind(other.mark, group):
                continue
            inside = [s.body[0] for s in other.spots()] if other.spot is not None else [(other.key[0], other.key[2])]
            if any(outer is not None and here in self.text.around(outer) for outer in inside):
                return False
        return not any(
            isinstance(s, ir.Collective) and COLLECTIVES[s.op].barrier and s.requires.at_least(group)
            for s in self._below(here)
        )

    def _below(self, here: Here):
        waiting = [here]
        while waiting:
            here = waiting.pop()
            s = self.text.statement[here]
            yield s
            k = 0
            while (here, k) in self.text.bodies:
                frame, body = self.text.bodies[(here, k)]
                waiting += [(frame, inner.number) for inner in body]
                k += 1

    def _leaves(self, here: Here, loops: int = 0) -> bool:
        """Return whether it may be left by break, continue or return."""
        s = self.text.statement[here]
        match s:
            case ir.Return():
                return True
            case ir.Break() | ir.Continue():
                return loops == 0
            case ir.Call():
                return False
            case ir.While() | ir.For():
                loops += 1
        k = 0
        while (here, k) in self.text.bodies:
            frame, body = self.text.bodies[(here, k)]
            if any(self._leaves((frame, inner.number), loops) for inner in body):
                return True
            k += 1
        return False


def _same_kind(mark: Mark, group: Privilege) -> bool:
    return mark.kind in ((PointKind.CLUSTER, PointKind.GRID) if group == CLUSTER1 else WAITING)


def _threads(warps: frozenset[int]) -> list[tuple[int, int]]:
    """The intervals of threads that these warps are."""
    found: list[tuple[int, int]] = []
    for w in sorted(warps):
        if found and found[-1][1] == w * WARP:
            found[-1] = (found[-1][0], (w + 1) * WARP)
        else:
            found.append((w * WARP, (w + 1) * WARP))
    return found


def _words(warps: frozenset[int], group: Privilege, size: int) -> str:
    if len(warps) * WARP == size:
        text = f"all {size} threads"
    else:
        runs = [(low // WARP, high // WARP - 1) for low, high in _threads(warps)]
        text = f"warp{'s' * (len(warps) > 1)} " + " and ".join(str(a) if a == b else f"{a}..{b}" for a, b in runs)
    return text if group == BLOCK1 else f"{text} of every {size} threads"


# ---- what comes out -------------------------------------------------------------------------------------------------


def _marks(text: Outline, barriers: list[Chosen], numbers: dict[Chosen, int]) -> dict[GapKey, list[Mark]]:
    made: dict[GapKey, list[Mark]] = {}
    for b in sorted(barriers, key=lambda b: b.parts is not None):  # what waits for copies stands first at its gap
        if b.parts is None:
            made.setdefault(b.key, []).append(replace(b.mark, number=numbers.get(b, 0)))
            continue
        for spot, part, mark in _parts(text, b, b.parts, numbers.get(b, 0)):
            made.setdefault(text.gap(spot), []).append(replace(mark, part=part))
    return made


def _parts(text: Outline, b: Chosen, parts: Parts, number: int) -> list[tuple[Spot, SyncHalf, Mark]]:
    _, body = text.bodies[parts.wait.body]
    at = body[min(parts.wait.at, len(body) - 1)].span
    made: list[tuple[Spot, SyncHalf, Mark]] = []
    if b.mark.kind == PointKind.CLUSTER:
        mark = replace(b.mark, pair=b.number, at=at)
        if parts.arrive is not None:
            made.append((parts.arrive, SyncHalf.ARRIVE, mark))
        return [*made, (parts.wait, SyncHalf.WAIT, mark)]
    size = text.threads if b.group == BLOCK1 else b.group.n
    waiting = _words(parts.waiting, b.group, size)
    first, why = reason(parts.alone, _words(parts.coming, b.group, size), f"{waiting} alone", text.function)
    mark = replace(
        b.mark,
        object=first.object,
        reason=why,
        first=first.first.span,
        second=first.second.span,
        kind=PointKind.NAMED,
        number=number,
        pair=b.number,
        threads=len(parts.some) * WARP,
        arrivals=_words(parts.arriving, b.group, size) if parts.arriving else waiting,
        waiters=waiting,
        at=at,
    )
    wait = _standing(text, mark, parts.stood, parts.wait, parts.waiting)
    if len(parts.some) == 1:
        alone = replace(wait, kind=PointKind.WARP, participants=WARP1, number=0, threads=0, pair=0)
        return [(parts.wait, SyncHalf.BOTH, alone)]
    if parts.arrive is not None:
        arrive = _standing(text, mark, parts.stood, parts.arrive, parts.arriving)
        made.append((parts.arrive, SyncHalf.ARRIVE, arrive))
    return [*made, (parts.wait, SyncHalf.WAIT, wait)]


def _standing(text: Outline, mark: Mark, stood: Spot, spot: Spot, warps: frozenset[int]) -> Mark:
    """At its spot: in a case of just these threads, which it was moved into, or in one that is put around it."""
    body, around = spot.body, _bodies_around(text, stood)
    while body not in around:  # a body that the barrier stood in before is run by the whole group
        here, k = body
        assert here is not None  # the text's own body is around every spot
        if isinstance(split := text.statement[here], ir.Split):
            return replace(mark, place=split.cases[k].place)
        body = text.stands[here][0]
    return replace(mark, only=tuple(_threads(warps)))


def _bodies_around(text: Outline, spot: Spot) -> set[BodyKey]:
    """The bodies a spot stands in."""
    found, body = {spot.body}, spot.body
    while body[0] is not None:
        body = text.stands[body[0]][0]
        found.add(body)
    return found
