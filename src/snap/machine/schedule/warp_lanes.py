"""One warp of adversarial mode: its lanes, the shared memory it sees, and the record of what it accesses.

Input: a schedule, a block, and the warp's first thread.  Output: `WarpLanes`, through which compiled statements run;
what they access goes to the schedule's log of races.  Non-goals: which warp goes on (adversarial.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from snap._compiler.ir.expressions import AT_LAUNCH
from snap._compiler.ir.hardware import BOX_ALIGN, WARP, WARPGROUP
from snap._compiler.ir.operations import MemoryScope
from snap._compiler.ir.strides import GroupShape
from snap._compiler.ir.synced import PointKind
from snap.machine.errors import FaultKind, MachineError, SideKind
from snap.machine.flight.copies import Copies, Flight
from snap.machine.flight.flights import Bulk, Products, RegisterFile, Registers, stretches
from snap.machine.lanes.lanes import FaultSite, Lanes, LogKind, Ordering
from snap.machine.lanes.storage import StorageView
from snap.machine.schedule import clocks
from snap.machine.schedule.clocks import Segment
from snap.machine.schedule.handed import HandedOn, ReachedGroup, ReleasedTo, groups_of, known_to
from snap.machine.schedule.races import LoggedAccess
from snap.machine.schedule.spoken import Spoken, Step
from snap.machine.schedule.spoken import where as spoken_at

if TYPE_CHECKING:
    from snap.machine.schedule.adversarial import Schedule

_ATOMIC = (LogKind.ATOMIC, LogKind.ATOMIC_READ)
_REACH = {MemoryScope.BLOCK: 0, MemoryScope.CLUSTER: 1, MemoryScope.GPU: 2, MemoryScope.SYSTEM: 2}  # of `ReachedGroup`


@dataclass(slots=True, eq=False)
class Arrival:
    """Describe a warp that reaches a barrier: the groups it belongs to (their keys and sizes) with its lanes in each,
    and its value.

    source: whose value is given to all; of a named barrier without a value its number, 0 where that is left open.
    """

    groups: dict[tuple, tuple[int, np.ndarray]]
    site: FaultSite
    op: str
    value: np.ndarray | None
    source: int


class SharedArena:
    """The shared memory of a cluster's blocks, one after the other: the bytes at an offset are whatever object lies
    there now.
    """

    def __init__(self, size: int, blocks: int):
        self.pitch = -(-size // BOX_ALIGN) * BOX_ALIGN
        self.blocks = blocks
        self.bytes = np.zeros(self.pitch * blocks, np.uint8)
        self.shadow = np.zeros(self.pitch * blocks, np.uint8)


class ArenaStorage:
    """One shared array in its block's memory, as one warp sees it."""

    address = 0

    def __init__(self, lanes: WarpLanes, arena: SharedArena, offset: int, size: int, name: str):
        self.lanes, self.name, self.record, self.offset, self.size = lanes, name, lanes.record, offset, size
        self.arena = arena
        end = offset + (arena.blocks - 1) * arena.pitch + size
        self.bytes, self.shadow = arena.bytes[offset:end], arena.shadow[offset:end]
        self.complete, self.dirty = False, False
        self.views: dict = {}
        self.identity = self

    def view(self, elem) -> StorageView:
        if elem not in self.views:
            made = self.views[elem] = StorageView(self, elem, self.arena.pitch)
            if self.arena.blocks > 1:
                made.offset = self.lanes.number % self.arena.blocks * made.stride
        return self.views[elem]

    def is_complete(self) -> bool:
        return False

    def uninitialized(self, error: MachineError) -> None:
        """A missing barrier shows as such a read; whether it is one is known only when the other access has
        happened.
        """
        launch = self.lanes.launch
        launch.uninitialized = launch.uninitialized or error


class WarpLanes(Lanes, RegisterFile):
    """One warp: (1, 32), or fewer in a block's last warp."""

    launch: Schedule
    patience = alertness = 16
    endurance = 400_000
    rounds = 200_000

    def __init__(self, schedule: Schedule, block: int, first: int):
        threads = np.arange(first, min(first + WARP, schedule.threads), dtype=np.int32)
        super().__init__(schedule, np.full((1, 1), block, np.int32), threads.reshape(1, -1))
        self.number = block
        self.fuel = 0
        self.bulk: dict[int, Bulk] = {}
        self.registers: dict[int, Registers] = {}
        self.register_fences = 0
        self.segment = Segment.first(block, block // schedule.blocks_per_cluster, threads)
        # Where in the text the warp is, and how often it has come where, and when it did (spoken.py).
        self.path: tuple[Step, ...] = ()
        self.times: dict[int, int] = {}
        self.came: dict[tuple[int, int], int] = {}
        self.does = "", False
        self.stuck_at = -1
        self.last_site: FaultSite | None = None
        self.waiting_at: set[FaultSite] = set()  # the loops in which threads of this warp go round

    def shared(self, uid: int, offset: int, size: int, name: str) -> ArenaStorage:
        if offset >= AT_LAUNCH:
            offset += self.launch.behind - AT_LAUNCH
        return ArenaStorage(self, self.launch.arena(self.segment.cluster), offset, size, name)

    @property
    def products(self) -> Products:
        key = (self.number, int(self.thread[0, 0]) // WARPGROUP)
        if key not in self.launch.products:
            self.launch.products[key] = Products(self.launch)
        return self.launch.products[key]

    def enter(self, number: int, threads: GroupShape | None) -> None:
        count = self.times[number] = self.times.get(number, 0) + 1
        self.came[number, count] = len(self.came)
        self.path = (*self.path, Step(number, count, threads))

    def in_case(self, case: int) -> None:
        self.path = (*self.path[:-1], replace(self.path[-1], case=case))

    def fence(self, m) -> None:
        """Make what these threads have written visible to the async proxy (TMA, wgmma), for those who learn of it."""
        self.segment = self.segment.fence(np.flatnonzero(self.active(m)[0]), self.launch.token())

    @cached_property
    def copies(self) -> Copies:
        made = Copies(self)
        self.launch.copying.append(made)
        return made

    def watch(self, count: int, waits: bool, site: FaultSite, state: tuple, seen: tuple | None) -> tuple:
        """Going round in circles is no fault of a warp's as long as another one may still change what it waits for."""
        self.last_site, self.waiting_at = site, {site}
        self.stuck_at = -1
        now = self.endure(count, waits, site, state, seen)
        if waits and count > now[2]:
            self.fuel = 0  # another one goes on
        if self.unchanged(state, seen) or (waits and count - now[2] > self.hope):
            self.stuck_at = self.launch.changes
            self.fuel = 0
        return now

    # ---- barriers ----

    def meet(
        self, kind: PointKind, index: np.ndarray, n: int | GroupShape, m, site: FaultSite, op: str, value, source: int
    ):
        """Wait for the group: all of a block, cluster or grid, or the n threads around this one (by `index`, its
        position); of a shape at a stride, `index` is the distance to its first thread.
        """
        active = self.active(m)[0]
        lanes = np.flatnonzero(active)
        threads = self.thread[0]
        launch: Schedule = self.launch
        block = int(self.block[0, 0])
        groups: dict[tuple, tuple[int, np.ndarray]] = {}
        whole = {
            PointKind.BLOCK: (block, 1),
            PointKind.CLUSTER: (self.segment.cluster, launch.blocks_per_cluster),
            PointKind.GRID: (0, launch.blocks),
        }.get(kind)
        if whole is not None:
            group, blocks = whole
            groups[kind, group, 0, 0] = (blocks * launch.threads, lanes)
        else:
            shape = n if isinstance(n, GroupShape) else GroupShape(n)
            before = self.full(index)[0]
            # the first thread of each lane's group
            first = threads - (before if shape.stride is not None else before % shape.n)
            for start in np.unique(first[lanes]).tolist():
                inside = lanes[first[lanes] == start]
                if start >= threads[0] and start + shape.span <= threads[-1] + 1:
                    self._meet_within(inside, shape, start, site)
                else:
                    groups[PointKind.NAMED, block, start, shape] = (shape.n, inside)
        if not groups:
            return None
        return (yield Arrival(groups, site, op, None if value is None else self.full(value), source))

    def _meet_within(self, lanes: np.ndarray, shape: GroupShape, start: int, site: FaultSite) -> None:
        if len(lanes) < shape.n:
            missing = next(t for t in (start + k for k in shape.members) if t not in self.thread[0][lanes])
            text = f"only {len(lanes)} of {shape.n} threads get here"
            raise MachineError(
                FaultKind.BARRIER_MISMATCH,
                text,
                site.span,
                int(self.block[0, 0]),
                int(self.thread[0, lanes[0]]),
                note=f"thread {missing} took a different path",
            )
        self.segment = clocks.joined([(self.segment, lanes)], self.launch.threads)[0]

    # ---- the log ----

    def record(self, view: StorageView, cells, width: int, m, kind: LogKind, order: Ordering, site: FaultSite) -> None:
        lanes = np.arange(self.shape[1]) if m is None else np.flatnonzero(self.full(m)[0])
        cells = self.full(cells)[0][lanes].astype(np.int64)
        spoken = self._spoken(kind)
        if kind not in _ATOMIC or not (self.launch.handed or order.releases):
            self.log(view, cells, lanes, width, kind, site, spoken=spoken)
            return
        where, address = self._address(view, cells)
        # Those that release happen one after the other.
        for part in [slice(k, k + 1) for k in range(len(lanes))] if order.releases else [slice(None)]:
            places = [((where, at), lane) for at, lane in zip(address[part].tolist(), lanes[part].tolist())]
            for place, lane in places if order.acquires else ():
                self._acquire(place, lane, order, spoken)
            self.log(view, cells[part], lanes[part], width, kind, site, spoken=spoken)
            for place, lane in places if kind is LogKind.ATOMIC else ():
                self._hand_on(place, lane, order, spoken)

    def record_many(
        self, view: StorageView, cells: np.ndarray, chosen: np.ndarray, site: FaultSite, kind: LogKind
    ) -> None:
        """Several scalars a lane are read or written: (scalars, 1, threads)."""
        self.log(view, cells[chosen].astype(np.int64), np.nonzero(chosen)[2], 1, kind, site)

    def log_stretches(
        self,
        view: StorageView,
        cells: np.ndarray,
        lane: int,
        kind: LogKind,
        site: FaultSite,
        token: int,
        verb: SideKind,
    ) -> None:
        """Log what one thread has begun asynchronously."""
        where, _ = self._address(view, cells[:0])
        spoken = self._spoken(kind)
        item, storage = view.flat.dtype.itemsize, view.storage
        base = getattr(storage, "offset", 0)
        address, size = stretches(cells, item, base)
        self.launch.log.add(
            where,
            LoggedAccess(
                address,
                np.full(len(address), lane),
                size,
                kind,
                self.segment,
                site,
                storage.name,
                base,
                item * view.width,
                token=token,
                verb=verb,
                pitch=self._pitch(view),
                spoken=spoken,
            ),
        )

    def _spoken(self, kind: LogKind) -> Spoken | None:
        """The atomic that the warp is at."""
        return Spoken(self, self.path, len(self.came), *self.does) if self.path and kind in _ATOMIC else None

    def _pitch(self, view: StorageView) -> int:
        return view.storage.arena.pitch if view.stride and self.launch.blocks_per_cluster > 1 else 0

    def log(
        self,
        view: StorageView,
        cells: np.ndarray,
        lanes: np.ndarray,
        width: int,
        kind: LogKind,
        site: FaultSite,
        copy: Flight | None = None,
        lands: bool = False,
        token: int = 0,
        spoken: Spoken | None = None,
    ) -> None:
        """One access; `cells` and `lanes` side by side."""
        where, address = self._address(view, cells)
        item, storage = view.flat.dtype.itemsize, view.storage
        base = getattr(storage, "offset", 0)
        self.launch.log.add(
            where,
            LoggedAccess(
                address,
                lanes,
                item * width,
                kind,
                self.segment,
                site,
                storage.name,
                base,
                item * view.width,
                copy,
                lands,
                token,
                pitch=self._pitch(view),
                spoken=spoken,
            ),
        )

    def _address(self, view: StorageView, cells: np.ndarray) -> tuple[object, np.ndarray]:
        """The memory, and the first byte of each cell in it."""
        where = ("shared", self.segment.cluster) if view.stride else view.storage.name
        return where, cells * view.flat.dtype.itemsize + getattr(view.storage, "offset", 0)

    def _groups(self, order: Ordering) -> list[ReachedGroup]:
        return groups_of(self.number, self.segment.cluster, _REACH[order.scope])

    def _acquire(self, place: tuple, lane: int, order: Ordering, spoken: Spoken | None) -> None:
        """Learn what was released there."""
        there = self.launch.handed.get(place)
        for known in known_to(there.last, self._groups(order)) if there is not None else ():
            self.segment = clocks.acquired(self.segment, np.array([lane]), known, self.launch.threads)
            if spoken is not None:
                event = spoken, int(self.segment.threads[lane])
                self.launch.log.promises.acquire(place, event, known.spoken)

    def _hand_on(self, place: tuple, lane: int, order: Ordering, spoken: Spoken | None) -> None:
        """Hand on what the thread did and knows, if it releases, the atomic itself included: it comes before whatever
        comes behind an acquire that reads it (PTX ISA, "Causality order").
        """
        handed, thread = self.launch.handed, int(self.segment.threads[lane])
        told: ReleasedTo = {}
        if order.releases:
            known = clocks.released(self.segment, np.array([lane]), self.launch.threads)
            if spoken is not None:
                known.spoken = {spoken_at((spoken, thread)): (spoken, thread)}
            told = dict.fromkeys(self._groups(order), known)
            self.segment = clocks.moved_on(self.segment, np.array([lane]))
            handed.setdefault(place, HandedOn())
        if place in handed:
            handed[place].write(self.number * self.launch.threads + thread, told, order.stores)
