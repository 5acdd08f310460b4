"""Barriers at which arriving and waiting are two things: mbarriers with their phases and bytes, barriers whose arrival
and wait stand apart, turns.

Input: arrivals, waits and bytes as they happen.  Output: who may go on, and what it has learnt.  Invariant: nobody
passes before the phase he waits for is complete; a wait that the parity of a real mbarrier could not decide, and
arrivals beyond the count, are errors. A warp that cannot go on yields a `Gate`, and looks again when that opens.
Non-goals: choosing who runs (adversarial.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.synced import PointKind, SyncHalf
from snap.machine.errors import FaultKind, MachineError
from snap.machine.lanes.lanes import FaultSite
from snap.machine.schedule import clocks
from snap.machine.schedule.clocks import Released

if TYPE_CHECKING:
    from snap.machine.schedule.adversarial import Schedule
    from snap.machine.schedule.warp_lanes import WarpLanes


class Gate:
    """Hold the warps that wait for one thing; `why` says what, at `site`, when it never comes."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.waiting: list = []
        self.site: FaultSite | None = None

    @property
    def where(self) -> FaultSite:
        """The place at which warps wait."""
        assert self.site is not None, "a warp waits"
        return self.site

    def open(self) -> None:
        self.schedule.woken += self.waiting
        self.waiting = []

    def why(self) -> str:
        raise NotImplementedError


# ---- mbarriers ------------------------------------------------------------------------------------------------------


class Slot(Gate):
    """One mbarrier of one block.  `phase` is the one in progress; `known` is what its arrivals have brought, `complete`
    that of the one before.
    """

    def __init__(self, schedule: Schedule, barrier: synced.MBarrier, block: int, number: int):
        super().__init__(schedule)
        self.barrier, self.block, self.number = barrier, block, number
        self.phase, self.arrivals, self.bytes = 0, 0, 0
        self.known, self.complete = Released(), Released()

    @property
    def name(self) -> str:
        return f"`{self.barrier.name}[{self.number}]`" if self.barrier.slots > 1 else f"`{self.barrier.name}`"

    def why(self) -> str:
        missing = []
        if self.arrivals < self.barrier.count:
            missing.append(f"{self.arrivals} of {self.barrier.count} arrivals have happened")
        if self.bytes:
            missing.append(
                f"{self.bytes} bytes are still expected"
                if self.bytes > 0
                else f"{-self.bytes} more bytes arrived than were expected"
            )
        return f"phase {self.phase} of {self.name} never completes: {' and '.join(missing)}"

    def arrive(
        self, known: Released, bytes: int, warp: WarpLanes, lane: int, site: FaultSite, arrivals: int = 1
    ) -> None:
        if self.arrivals + arrivals > self.barrier.count:
            text = f"an arrival at {self.name} beyond the {self.barrier.count} that phase {self.phase} counts"
            raise MachineError(FaultKind.BARRIER_MISMATCH, text, site.span, self.block, int(warp.thread[0, lane]))
        self.arrivals += arrivals
        self.bytes += bytes
        self.known.add(known)
        self._look()

    def expect(self, bytes: int) -> None:
        self.bytes += bytes

    def deliver(self, bytes: int, token: int) -> None:
        """A copy's bytes have come."""
        self.bytes -= bytes
        self.known.done |= token
        self._look()

    def _look(self) -> None:
        if self.arrivals == self.barrier.count and self.bytes == 0:
            self.phase, self.arrivals = self.phase + 1, 0
            self.known, self.complete = Released(), self.known
            self.schedule.changes += 1
            self.open()

    def passed(self, phase: int, warp: WarpLanes, site: FaultSite) -> bool:
        """Test whether the phase is complete; a real barrier tells the phase in progress from the one before, and no
        other.
        """
        if not self.phase - 1 <= phase <= self.phase:
            behind = f"phase {self.phase} is in progress"
            raise MachineError(
                FaultKind.WRONG_PHASE,
                f"phase {phase} of {self.name} is waited for when {behind}",
                site.span,
                self.block,
                int(warp.thread[0, 0]),
                note="a wait sees the parity of a phase only: it would pass too early, or never",
            )
        return phase < self.phase


def _pairs(warp: WarpLanes, m, *values) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """The different values of active lanes, each with its lanes."""
    lanes = np.flatnonzero(warp.active(m)[0])
    table = [np.broadcast_to(v, warp.shape)[0][lanes].tolist() for v in values]
    found: dict[tuple[int, ...], list[int]] = {}
    for lane, key in zip(lanes.tolist(), zip(*table)):
        found.setdefault(key, []).append(lane)
    return [(key, np.array(members)) for key, members in found.items()]


def wait(warp: WarpLanes, barrier: synced.MBarrier, slot, phase, m, site: FaultSite):
    """Every active thread waits until the phase of its slot is complete."""
    schedule: Schedule = warp.launch
    for (number, wanted), lanes in _pairs(warp, m, slot, phase):
        one = schedule.slot(barrier, warp.number, number, site)
        while not one.passed(wanted, warp, site):
            one.site = site
            yield one
        if wanted >= 0:
            warp.segment = clocks.acquired(warp.segment, lanes, one.complete, schedule.threads)


def arrive(
    warp: WarpLanes, barrier: synced.MBarrier, slot, index, n: int, m, bytes: int, fence: bool, site: FaultSite
) -> None:
    """One arrival a unit of n threads, by its first thread.  Within a warp the unit's threads meet before; a larger
    unit's do not.
    """
    schedule: Schedule = warp.launch
    if fence:
        warp.fence(m)
    active = np.flatnonzero(warp.active(m)[0])
    place = np.broadcast_to(index, warp.shape)[0] % n if n else warp.thread[0]
    numbers = np.broadcast_to(slot, warp.shape)[0]
    for lane in active[place[active] == 0].tolist():
        unit = active[(active >= lane) & (active < lane + n)] if 1 < n <= WARP else np.array([lane])
        if len(unit) > 1:
            warp.segment = clocks.joined([(warp.segment, unit)], schedule.threads)[0]
        before = warp.segment
        known = clocks.released(before, np.array([lane]), schedule.threads)
        warp.segment = clocks.moved_on(before, unit)
        for block in schedule.cluster_of(warp.number) if barrier.everywhere else (warp.number,):
            one = schedule.slot(barrier, block, int(numbers[lane]), site)
            if block != warp.number:
                schedule.remote.append((block, barrier.name, site, before, lane))
            one.arrive(known, bytes if block == warp.number else 0, warp, lane, site)


def expect(warp: WarpLanes, barrier: synced.MBarrier, slot, bytes: int, m, site: FaultSite) -> None:
    for (number,), lanes in _pairs(warp, m, slot):
        for _ in lanes:
            warp.launch.slot(barrier, warp.number, number, site).expect(bytes)


# ---- arrive and wait apart ------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Generation:
    """One use of a barrier."""

    known: Released = field(default_factory=Released)
    count: int = 0
    warps: set = field(default_factory=set)
    complete: bool = False


class Meeting(Gate):
    """A barrier of `size` threads; those of a generation are complete together.

    At a cluster's, everybody arrives and later waits for the same generation.  At a named one, some arrive and the
    others, who wait, arrive by it.
    """

    def __init__(self, schedule: Schedule, size: int, name: str):
        super().__init__(schedule)
        self.size, self.name = size, name
        self.now = Generation()
        self.arrived: dict[WarpLanes, Generation] = {}

    def why(self) -> str:
        return f"only {self.now.count} of {self.size} threads ever arrive for {self.name}"

    def arrive(self, warp: WarpLanes, lanes: np.ndarray, site: FaultSite) -> Generation:
        if warp in self.now.warps:
            raise MachineError(
                FaultKind.BARRIER_MISMATCH,
                f"these threads arrive again before the barrier for {self.name} is complete",
                site.span,
                warp.number,
                int(warp.thread[0, lanes[0]]),
            )
        now, self.site = self.now, site
        now.known.add(clocks.released(warp.segment, lanes, self.schedule.threads))
        warp.segment = clocks.moved_on(warp.segment, lanes)
        now.count += len(lanes)
        now.warps.add(warp)
        if now.count > self.size:
            raise MachineError(
                FaultKind.BARRIER_MISMATCH,
                f"more than {self.size} threads arrive for {self.name}",
                site.span,
                warp.number,
                int(warp.thread[0, lanes[0]]),
            )
        if now.count == self.size:
            now.complete, self.now = True, Generation()
            self.schedule.changes += 1
            self.open()
        return now


def meet_apart(warp: WarpLanes, kind: PointKind, part: SyncHalf, number: int, n: int, threads: int, m, site: FaultSite):
    """One half of a barrier: of the cluster, or a named one of the group of n threads (0 for the block) at which
    `threads` take part.
    """
    schedule: Schedule = warp.launch
    lanes = np.flatnonzero(warp.active(m)[0])
    key: tuple
    if kind is PointKind.CLUSTER:
        size, key = schedule.threads * schedule.blocks_per_cluster, ("cluster", warp.segment.cluster)
    elif kind is PointKind.NAMED:
        group = int(warp.thread[0, lanes[0]]) // n if n else 0
        size, key = threads or n or schedule.threads, ("named", warp.number, number + group if number else (n, group))
    else:
        raise TypeError(f"a barrier of kind {kind!r} is not taken apart")
    meeting = schedule.meetings.setdefault(key, Meeting(schedule, size, f"`{site.name}`"))
    # A number is free for another barrier once the one before is complete.
    if meeting.size != size and not meeting.now.count:
        meeting.size, meeting.name = size, f"`{site.name}`"
    if meeting.size != size:
        text = f"{size} threads are to meet here, {meeting.size} where others have arrived for {meeting.name}"
        raise MachineError(
            FaultKind.BARRIER_MISMATCH,
            text,
            site.span,
            warp.number,
            int(warp.thread[0, lanes[0]]),
            secondary=((meeting.where.span, "others have arrived here"),),
        )
    if part is SyncHalf.ARRIVE or kind is PointKind.NAMED:
        generation = meeting.arrive(warp, lanes, site)
        meeting.arrived[warp] = generation
        if part is SyncHalf.ARRIVE:
            return
    yield from _wait_for(warp, meeting, lanes, site)


def _wait_for(warp: WarpLanes, meeting: Meeting, lanes: np.ndarray, site: FaultSite):
    """Wait for the generation at which these threads have arrived."""
    schedule: Schedule = warp.launch
    if warp not in meeting.arrived:
        raise MachineError(
            FaultKind.BARRIER_MISMATCH,
            f"these threads wait for {meeting.name} and have not arrived",
            site.span,
            warp.number,
            int(warp.thread[0, lanes[0]]),
        )
    generation = meeting.arrived.pop(warp)
    while not generation.complete:
        meeting.site = site
        yield meeting
    warp.segment = clocks.acquired(warp.segment, lanes, generation.known, schedule.threads)


def meet_by_hand(warp: WarpLanes, kind: PointKind, part: SyncHalf, number: int, index, n: int, m, site: FaultSite):
    """One half of a barrier of the program's: of the cluster, the block, or the n threads around this one (by `index`,
    its position).  Whoever arrives goes on, and waits for the same generation later.
    """
    schedule: Schedule = warp.launch
    lanes = np.flatnonzero(warp.active(m)[0])
    if kind is PointKind.CLUSTER:
        yield from meet_apart(warp, kind, part, 0, 0, 0, m, site)
        return
    threads, n = warp.thread[0], n or schedule.threads
    first = threads - np.broadcast_to(index, warp.shape)[0] % n  # the first thread of each lane's group
    for start in np.unique(first[lanes]).tolist():
        meeting = schedule.meetings.setdefault(
            ("by hand", warp.number, number, start), Meeting(schedule, n, f"`{site.name}`")
        )
        mine = lanes[first[lanes] == start]
        if part is SyncHalf.ARRIVE:
            meeting.arrived[warp] = meeting.arrive(warp, mine, site)
        else:
            yield from _wait_for(warp, meeting, mine, site)


# ---- turns ----------------------------------------------------------------------------------------------------------


class TurnGate(Gate):
    """Units that take turns: `now` counts them; the turn is over when all threads of a unit have left."""

    def __init__(self, schedule: Schedule, units: int, size: int):
        super().__init__(schedule)
        self.units, self.size = units, size
        self.now, self.left = 0, 0

    def why(self) -> str:
        return f"it is unit {self.now % self.units}'s turn, which never takes it"

    def leave(self, threads: int) -> None:
        self.left += threads
        if self.left >= self.size:
            self.now, self.left = self.now + 1, 0
            self.schedule.changes += 1
            self.open()


def turn(warp: WarpLanes, key: object, parent: int, unit: int, units: int, size: int, site: FaultSite):
    """Wait for a unit's turn; `parent`: the first thread of the group whose units take turns."""
    turns = warp.launch.turns.setdefault((key, warp.number, parent), TurnGate(warp.launch, units, size))
    while turns.now % units != unit:
        turns.site = site
        yield turns
    return turns
