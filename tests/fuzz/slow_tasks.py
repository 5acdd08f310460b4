"""Who runs: lanes, groups of them, and groups that wait for one another.

Within a group every statement is executed by all lanes before the next begins, and control flow is the same for all.  Groups that a `group` or a `split` makes
run one after another, unless their code may wait for another group (it spins on an atomic, or takes turns): then each runs in a thread of its own, one at a time,
and hands over at the end of every iteration.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass, field

from fuzz.slow_text import Privilege
from fuzz.slow_values import Memory, Trap

PAUSES = 50_000  # after so many iterations in which nobody stores anything, all wait for one another


class Lane:
    """A thread of the launch, and its variables in the function at hand."""

    __slots__ = ("thread", "block", "cluster", "rank", "number", "v", "result")

    def __init__(self, thread, block, cluster, rank, number, v):
        self.thread, self.block, self.cluster, self.rank, self.number, self.v, self.result = thread, block, cluster, rank, number, v, None

    def with_variables(self, v: dict) -> Lane:
        return Lane(self.thread, self.block, self.cluster, self.rank, self.number, v)


@dataclass
class Turns:
    """The groups that take turns: how many there are, and how many turns were taken at each place of the text."""

    groups: int
    taken: dict = field(default_factory=dict)


class Group:
    """Lanes that act as one.  align: what is known to divide the number of the first thread and block (0: everything does).  gaps: whether others lie among them."""

    def __init__(self, lanes: list[Lane], launch, level: str, align=(0, 0), turns: Turns | None = None, place: int = 0, gaps: bool = False):
        self.gaps, self.ranks = gaps, {}
        self.lanes, self.launch, self.level, self.align, self.turns, self.place = lanes, launch, level, align, turns, place
        self.first = lanes[0]

    def chunks(self, key) -> list[list[Lane]]:
        found: dict = {}
        for lane in self.lanes:
            found.setdefault(key(lane), []).append(lane)
        return list(found.values())

    def blocks(self) -> list[list[Lane]]:
        return self.chunks(lambda lane: lane.block)

    def unit(self, lane: Lane, p: Privilege) -> int:
        """Which unit of p the lane is in, within this group."""
        level, n = p.level, p.n
        if p.apart > 1 or self.gaps:
            return self._ranks(p)[self._of(lane, p)]
        if level == "thread":
            return (lane.number - self.first.number) // n
        if level == "block":
            return (lane.block - self.first.block) // n
        return (lane.cluster - self.first.cluster) // n if level == "cluster" else 0

    def count(self, p: Privilege) -> int:
        if p.apart > 1 or self.gaps:
            return len(self._ranks(p))
        return (self.unit(self.lanes[-1], Privilege(p.level, 1)) + 1) // p.n

    def _of(self, lane: Lane, p: Privilege) -> tuple:
        """Which unit of p a lane is in, of all in its block or cluster."""
        if p.level == "thread":
            return lane.block, p.of(lane.thread)
        return (lane.cluster, p.of(lane.block if self.launch.cluster is None else lane.rank)) if p.level == "block" else (lane.cluster // p.n,)

    def _ranks(self, p: Privilege) -> dict:
        if p not in self.ranks:
            self.ranks[p] = {of: k for k, of in enumerate(sorted({self._of(lane, p) for lane in self.lanes}))}
        return self.ranks[p]

    def _at_stride(self, p: Privilege) -> list[Group]:
        """The groups of p where these lanes, or those of p, have others among them."""
        parts: dict = {}
        for lane in self.lanes:
            parts.setdefault(self._of(lane, p), []).append(lane)
        # A group's lanes follow one another in it; what divides their numbers is said of the lanes of such groups alone.
        return [Group(parts[of], self.launch, p.level, (p.n, 0) if p.level == "thread" else (0, p.n), gaps=p.apart > 1) for of in sorted(parts)]

    def divided(self, p: Privilege) -> list[Group]:
        """`group(level[n])`."""
        level, n = p.level, p.n
        if p.apart > 1 or self.gaps and level == self.level:
            return self._at_stride(p)
        if level == "grid":
            return [self]
        first = self.first
        if level == "cluster":
            return [Group(c, self.launch, "cluster") for c in self.chunks(lambda lane: (lane.cluster - first.cluster) // n)]
        if level == "block":
            align = (0, math.gcd(self.align[1], n))
            return [Group(c, self.launch, "block", align) for c in self.chunks(lambda lane: (lane.cluster, self._block(lane) // n))]
        align = (math.gcd(self.align[0], n), 0)
        groups = [Group(c, self.launch, "thread", align) for c in self.chunks(lambda lane: (lane.block, (lane.thread - first.thread) // n))]
        of_block: dict = {}
        for group in groups:
            group.turns = of_block.setdefault(group.first.block, Turns(0))
            group.place = group.turns.groups
            group.turns.groups += 1
        return groups

    def _block(self, lane: Lane) -> int:
        return lane.block - self.first.block if self.launch.cluster is None else lane.rank - self.first.rank

    def dealt(self, level: str, sizes: list[int | None]) -> list[list[Group]]:
        """`split(level)`: for each case its groups.  None: what is left, in groups of the largest size that is aligned and divides."""
        cases: list[list[Group]] = [[] for _ in sizes]
        if level == "thread":
            parents, known = self.blocks(), self.align[0]
            position = {id(lane): k for lanes in parents for k, lane in enumerate(lanes)}
            unit = lambda lane: position[id(lane)]  # noqa: E731
        else:
            parents, unit, known = self.chunks(lambda lane: lane.cluster), self._block, self.align[1]
        for parent in parents:
            total, offset = unit(parent[-1]) + 1, 0
            for case, size in zip(cases, sizes):
                align = math.gcd(known, offset)
                if size is None:
                    left = total - offset
                    divides = left if level == "thread" or self.launch.cluster is not None else math.gcd(self.launch.promised, offset)
                    ends = math.gcd(align, divides)
                    while left > 0:
                        case.append(self._case(parent, unit, offset, ends, level, math.gcd(align, ends)))
                        offset, left = offset + ends, left - ends
                else:
                    case.append(self._case(parent, unit, offset, size, level, align))
                    offset += size
        return cases

    def _case(self, parent, unit, offset, size, level, align) -> Group:
        lanes = [lane for lane in parent if offset <= unit(lane) < offset + size]
        return Group(lanes, self.launch, level, (align, 0) if level == "thread" else (0, align), gaps=self.gaps)

    def agreed(self, values: list, what: str):
        """The one value that all lanes hold."""
        first = values[0]
        if any(v != first for v in values) and not (isinstance(first, float) and math.isnan(first)):
            raise Trap(f"the threads of a group disagree about {what}")
        return first


class _Abandoned(Exception):
    pass


class _Task:
    def __init__(self, parent):
        self.parent, self.go, self.children = parent, threading.Semaphore(0), 0


class Tasks:
    """Python threads of which one runs at a time.  A task that has children waits for them."""

    def __init__(self):
        self.ready: deque[_Task] = deque()
        self.current: _Task = _Task(None)
        self.error: BaseException | None = None
        self.active = self.pauses = self.stores = 0

    def all(self, work: list) -> None:
        """Run these functions, in turn."""
        parent = self.current
        parent.children = len(work)
        self.active += 1
        for one in work:
            task = _Task(parent)
            threading.Thread(target=self._run, args=(task, one), daemon=True).start()
            self.ready.append(task)
        self._next()
        try:
            parent.go.acquire()
        except BaseException as error:  # somebody stops the launch from outside
            self.error = error
            raise
        self.current = parent
        self.active -= 1
        if self.error is not None:
            raise self.error if parent.parent is None else _Abandoned()

    def _next(self) -> None:
        self.ready.popleft().go.release()

    def _run(self, task: _Task, work) -> None:
        task.go.acquire()
        self.current = task
        try:
            if self.error is None:
                work()
        except _Abandoned:
            pass
        except BaseException as error:
            self.error = self.error or error
        task.parent.children -= 1
        if task.parent.children == 0:
            self.ready.append(task.parent)
        self._next()

    def pause(self) -> None:
        """Let the others run."""
        if Memory.stores != self.stores:
            self.stores, self.pauses = Memory.stores, 0
        self.pauses += 1
        if self.pauses > PAUSES:
            raise Trap("it hangs")
        if not self.active or not self.ready:
            return
        task = self.current
        self.ready.append(task)
        self._next()
        task.go.acquire()
        self.current = task
        if self.error is not None:
            raise _Abandoned()
