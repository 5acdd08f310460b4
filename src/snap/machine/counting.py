"""Count what a run executes, by line of the source and by warp.

Input: a kernel, synchronized but not yet taken apart by role, and its arguments.  Output: for each batch of blocks that
has run, `Tally`s: of each line, how many events each warp has counted.  Invariant: an access is counted as often as it
is executed: programs that count merge no accesses (`Writing.prepares`).  What it counts besides, a table says
(snap._compiler.ir.costs).  Non-goals: what the numbers are called, and how they are added up (snap.cost).

A warp's lanes are together wherever the machine's are: where some of them wait while others go round a loop, the warp
goes round it once for all that do.  Memory that is given to CUDA text is not counted, nor what that text does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.costs import CostEvent
from snap._compiler.ir.hardware import SECTOR, WARP, WIDEST
from snap._compiler.ir.walk import callees, statements
from snap.machine import requests
from snap.machine.lanes.boxes import Boxes
from snap.machine.lanes.lanes import FaultSite, LogKind, MachineLaunch, Ordering
from snap.machine.lanes.printing import silent
from snap.machine.lanes.storage import Record, SharedStorage, StorageView
from snap.machine.reference import BlockLanes, make_lanes, ran
from snap.machine.requests import PerWarp
from snap.machine.source.counted import CountedPlace
from snap.machine.source.program import program_for

Line: TypeAlias = tuple[str, int]  # a file, and a line of it
Tally: TypeAlias = "dict[tuple[Line, CostEvent], np.ndarray]"  # (blocks, warps)

_ATOMIC = (LogKind.ATOMIC, LogKind.ATOMIC_READ)


def run_counting(function: synced.Function, args: list, blocks: int) -> Iterator[Tally]:
    """Run a kernel and count; arrays among `args` are written in place, and what it prints is not said."""
    program = program_for(function, stepwise=False, counted=True)
    declared = (s for f in callees(function) for s in statements(f.body) if isinstance(s, ir.DeclareShared))
    swizzles = {s.obj.uid: s.obj.swizzle for s in declared}

    def take(launch: MachineLaunch, part: Sequence[int]) -> CountingLanes:
        lanes = make_lanes(CountingLanes, launch, part)
        assert isinstance(lanes, CountingLanes)
        lanes.swizzles = swizzles
        return lanes

    for lanes in ran(program, args, blocks, silent, None, take):
        yield lanes.tally()


class CountingLanes(BlockLanes):
    """Whole blocks, in lockstep, that count."""

    def __init__(self, launch: MachineLaunch, block: np.ndarray, thread: np.ndarray):
        super().__init__(launch, block, thread)
        blocks, threads = self.shape
        self.warps = -(-threads // WARP)
        # Lanes are numbered so that 32 of them are a warp, in blocks of odd sizes, too.
        self.number = np.arange(blocks, dtype=np.int64)[:, None] * (self.warps * WARP) + np.arange(threads)
        self.whole = np.minimum(threads - np.arange(self.warps) * WARP, WARP)[None, :].repeat(blocks, 0)
        self.times: dict[
            CountedPlace, np.ndarray
        ] = {}  # how many warps, and threads, have executed it: (2, blocks, warps)
        self.seen: defaultdict[tuple[Line, CostEvent], np.ndarray] = defaultdict(self._none)
        self.swizzles: dict[int, int] = {}  # of shared arrays, by their numbers
        self._last: tuple[object, np.ndarray] = (None, self.whole)

    def _none(self) -> np.ndarray:
        return np.zeros(self.whole.shape, np.int64)

    def tally(self) -> Tally:
        """Add what statements have counted to what accesses have."""
        for counter, (warps, threads) in self.times.items():
            for event, n in counter.events.of_warp:
                self.seen[(counter.file, counter.line), event] += n * warps
            for event, n in counter.events.of_thread:
                self.seen[(counter.file, counter.line), event] += n * threads
        self.times.clear()
        return dict(self.seen)

    def active_of_warps(self, m) -> np.ndarray:
        """Count the active lanes of each warp."""
        if m is None:
            return self.whole
        if m is not self._last[0]:
            full = np.pad(self.full(m), ((0, 0), (0, self.warps * WARP - self.shape[1])))
            self._last = m, full.reshape(self.shape[0], self.warps, WARP).sum(2)
        return self._last[1]

    # ---- statements ----

    def did(self, counter: CountedPlace, m) -> None:
        if m is False:
            return
        active = self.active_of_warps(m)
        if counter not in self.times:
            self.times[counter] = np.zeros((2, *active.shape), np.int64)
        times = self.times[counter]
        times[0] += active > 0
        times[1] += active

    def tested(self, counter: CountedPlace, asked, passed) -> None:
        """Count a test, and where the lanes of a warp disagree about it."""
        self.did(counter, asked)
        if asked is not False and passed is not False and passed is not asked:
            self._diverges(counter, self.active_of_warps(asked), [self.active_of_warps(passed)])

    def parted(self, counter: CountedPlace, m, members: tuple) -> None:
        """Count where a split parts the lanes of a warp."""
        whole, active = self.active_of_warps(m), self.active(m)
        self._diverges(counter, whole, [self.active_of_warps(active & self.full(part)) for part in members])

    def _diverges(self, counter: CountedPlace, whole: np.ndarray, parts: list[np.ndarray]) -> None:
        here = np.zeros(whole.shape, bool)
        for part in parts:
            here |= (part > 0) & (part < whole)
        if here.any():
            self.seen[(counter.file, counter.line), CostEvent.DIVERGENCE] += here

    # ---- accesses ----

    @property
    def told(self) -> Record | None:
        return self.record

    def shared(self, uid: int, offset: int, size: int, name: str) -> SharedStorage:
        made = super().shared(uid, offset, size, name)
        made.record, made.swizzle = self.told, self.swizzles[uid]
        return made

    def record(self, view: StorageView, cells, width: int, m, kind: LogKind, order: Ordering, site: FaultSite) -> None:
        """Count an access, 16 bytes of each lane at a time.  Rows of matrices are wider than the elements they are
        named by.
        """
        active, item = self.active(m), view.flat.itemsize
        at, lanes = self.full(cells)[active].astype(np.int64) * item, self.number[active]
        for first in range(0, width * item, WIDEST):
            self._request(view, at + first, lanes, min(width * item - first, WIDEST), kind, site, width > view.width)

    def record_many(
        self, view: StorageView, cells: np.ndarray, chosen: np.ndarray, site: FaultSite, kind: LogKind
    ) -> None:
        """Count several scalars of each lane: (scalars, blocks, threads).  Of global memory they are one request, side
        by side.  In shared memory they are an accumulator's, pairs of columns, and a lane stores a pair at once; 32 of
        them are a matrix of `stmatrix`, if elements have 16 bits.
        """
        item = view.flat.itemsize
        for some, width in [(slice(None), 1)] if not view.stride else [(k, 2) for k in range(0, len(chosen), 2)]:
            here = chosen[some]
            if here.any():
                lanes = np.broadcast_to(self.number, here.shape)[here]
                at = cells[some][here].astype(np.int64) * item
                self._request(view, at, lanes, width * item, kind, site, False)

    def _request(
        self, view: StorageView, at: np.ndarray, lanes: np.ndarray, width: int, kind: LogKind, site: FaultSite, rows
    ) -> None:
        if not len(lanes):
            return
        reads, made = kind in (LogKind.READ, LogKind.ATOMIC_READ), requests.requests(lanes)
        if view.stride:
            of_block = at % (view.stride * view.flat.itemsize)
            at = at - of_block + requests.swizzled(of_block, view.storage.swizzle)
            fronts, conflicts = requests.wavefronts(at, lanes, width, reads and not rows)
            self._count(site, CostEvent.SHARED_REQUEST, made)
            self._count(site, CostEvent.WAVEFRONT, fronts)
            self._count(site, CostEvent.CONFLICT, conflicts)
        else:
            self._count(site, CostEvent.GLOBAL_REQUEST, made)
            event = CostEvent.SECTOR_LOADED if reads else CostEvent.SECTOR_STORED
            self._count(site, event, requests.sectors(at, lanes, width))
            self._count(site, CostEvent.BYTE, requests.added(lanes, width))
        if kind in _ATOMIC:
            self._count(site, CostEvent.ATOMIC_PASS, requests.passes(at, lanes))

    def _count(self, site: FaultSite, event: CostEvent, found: PerWarp) -> None:
        self.seen[(site.span.filename, site.span.line), event].reshape(-1)[found.warps] += found.counts

    # ---- boxes ----

    def moved(self, made: Boxes, which: slice, cells: np.ndarray, inside: np.ndarray | None) -> None:
        """Count what a TMA copy moves, for the warp that issues it: of copies for a cluster, the block's own share."""
        item, spec = made.array.flat.itemsize, made.spec
        for k, (row, column) in enumerate(zip(made.rows[which], made.columns[which])):
            some, fits = cells[k], None if inside is None else inside[k]
            if spec.copies and spec.loads:
                block = int(self.block[row, 0])
                share = spec.share(block, self.launch.blocks_per_cluster, made.view.width)
                some, fits = some[share], None if fits is None else fits[share]
            some = some if fits is None else some[fits]
            warp = np.array([self.number[row, column] // WARP])
            for event, n in (
                (CostEvent.BOX_REQUEST, 1),
                (CostEvent.BOX_BYTE, len(some) * item),
                (CostEvent.BOX_SECTOR, len(np.unique(some * item // SECTOR))),
            ):
                self._count(spec.site, event, PerWarp(warp, np.array([n])))
