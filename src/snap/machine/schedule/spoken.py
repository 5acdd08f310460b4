"""Track what a release by one thread promises of its group's atomics, and an acquire to the group it acquires for.

Input: atomics as they happen, TMA reductions too, each with where in the text its warp is.  Output: races: pairs of
atomics on one element, one done by a group before one of its threads released, the other by a group after one of its
threads had acquired that, which nothing orders.  Invariant: what is reported was promised (docs/language.md,
Synchronization): threads of one block, in code that they run together, in the order of the text.  Non-goals: to report
all; threads that run each on their own are not followed, nor are more than so many atomics on an element.

A *path* is where a warp is: the groups, splits and functions of single threads around a statement, and it itself, each
with how often the warp has come there.  Threads that run code together come there equally often, so that paths of two
warps tell what comes first in the text, whichever warp is ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from snap._compiler.ir.operations import BITWISE
from snap._compiler.ir.strides import NUMBERS, GroupShape

if TYPE_CHECKING:
    from snap.machine.schedule.races import LoggedAccess
    from snap.machine.schedule.warp_lanes import WarpLanes

_COMMUTE = frozenset(("add", "min", "max", *BITWISE))
MOST_QUESTIONS = 20_000  # pairs of places that are compared in one look; what is left then is not reported
WHOLE = GroupShape(0)  # all threads of the block
MOST_ATOMICS = 40  # atomics on one element that are compared, from the last one


@dataclass(frozen=True, slots=True)
class Step:
    """Name what a warp has entered, and how many times; which threads run it together, None for those around it; and
    which case of a split it is.
    """

    number: int
    count: int
    threads: GroupShape | None = None
    case: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """An atomic of a warp.  at: how many steps the warp had taken."""

    lanes: WarpLanes
    path: tuple[Step, ...]
    at: int
    op: str
    wanted: bool

    def apart(self, other: Spoken) -> bool:
        """Test whether it matters which comes first."""
        if self.op == other.op == "load":
            return False
        return self.asks or other.asks or self.op != other.op or self.op not in _COMMUTE

    @property
    def asks(self) -> bool:
        return self.wanted or self.op in ("load", "cas")


SpokenBy = tuple[Spoken, int]  # and by which thread of the block


class Promises:
    """heard: by block, who acquired, and which releases that it learnt of; one event for all that a thread acquires, or
    releases, by one statement while it stays where it is (a loop that waits).
    """

    def __init__(self) -> None:
        self.questions = 0
        self.heard: dict[int, dict[tuple, tuple[SpokenBy, dict[tuple, SpokenBy]]]] = {}

    def acquire(self, cell: tuple, event: SpokenBy, found: dict[tuple, SpokenBy]) -> None:
        """found: the releases that it learns of, by where each was done."""
        if found:
            heard, at = self.heard.setdefault(event[0].lanes.number, {}), (cell, *where(event))
            heard[at] = event, {**heard[at][1], **found} if at in heard else found

    def broken(
        self, entries: list[LoggedAccess], after: Callable[[LoggedAccess, int, LoggedAccess, int], bool]
    ) -> Iterator[tuple[LoggedAccess, int, LoggedAccess, int, int]]:
        """Pairs that were promised to be ordered, the first one first, and the address.  after: whether the second of
        two accesses, each of a lane, comes after the first.
        """
        done: dict[int, list[tuple[LoggedAccess, int]]] = {}
        for e in entries if self.heard else ():
            if e.spoken is not None:
                inside = range(0, e.size, e.element) if e.token else (0,)  # of a box, pieces of several elements
                for address, lane in zip(e.address.tolist(), e.lane.tolist()):
                    for at in inside:
                        done.setdefault(address + at, []).append((e, lane))
        told: set[tuple] = set()
        self.questions = 0
        for address, members in done.items():
            members = members[-MOST_ATOMICS:]
            for k, (b, j) in enumerate(members):
                for a, i in members[:k]:
                    if a.spoken is None or b.spoken is None:
                        continue
                    first, second = (a.spoken, int(a.segment.threads[i])), (b.spoken, int(b.segment.threads[j]))
                    one = a.segment.block == b.segment.block and first[1] == second[1]
                    if one or (a.site, b.site) in told or not a.spoken.apart(b.spoken):
                        continue
                    if after(a, i, b, j) or after(b, j, a, i):
                        continue
                    if self.promised(first, second, set()):
                        yield a, i, b, j, address
                    elif self.promised(second, first, set()):
                        yield b, j, a, i, address
                    else:
                        continue
                    told.add((a.site, b.site))

    def promised(self, a: SpokenBy, b: SpokenBy, seen: set[int]) -> bool:
        """seen: the acquires that were looked at already."""
        for q, found in self.heard.get(b[0].lanes.number, {}).values():
            self.questions += 1
            if self.questions > MOST_QUESTIONS:
                return False
            if id(q) in seen or not before(q, b):
                continue
            seen.add(id(q))
            for r in found.values():
                self.questions += 1
                if r[0].lanes.number == a[0].lanes.number and before(a, r):
                    return True
                if r[0].lanes.number != b[0].lanes.number and self.promised(a, r, seen):
                    return True
        return False


def where(event: SpokenBy) -> tuple:
    spoken, thread = event
    return spoken.lanes.number, thread, spoken.path[:-1], spoken.path[-1].number


def before(x: SpokenBy, z: SpokenBy) -> bool:
    """Test whether x comes before z in the text of a group that both threads, of one block, belong to."""
    (a, one), (b, other) = x, z
    if one == other:
        return a.at < b.at
    k, together = 0, WHOLE
    while k < min(len(a.path), len(b.path)) and a.path[k] == b.path[k]:
        together = a.path[k].threads or together
        k += 1
    if k in (len(a.path), len(b.path)) or together.n == 1:
        return False
    if together is not WHOLE and together.number(one, NUMBERS) != together.number(other, NUMBERS):
        return False
    if a.lanes is b.lanes:
        return a.at < b.at
    first, second = ((step.number, step.count) for step in (a.path[k], b.path[k]))
    if first == second:
        return False
    for came in (b.lanes.came, a.lanes.came):  # whichever warp has come to both
        if first in came and second in came:
            return came[first] < came[second]
    return False
