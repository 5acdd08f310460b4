"""TMA copies and wgmma in flight, in adversarial mode.

Input: what warps issue, commit and wait for.  Output: memory and accumulators, changed as early or as late as the waits
allow; entries of the race log.  Invariant: what a wait covers has happened when it returns; a load's bytes are counted
on its barrier when they lie in memory.  Products of a warpgroup happen in the order they were issued, when all of its
warps have come.  Non-goals: deciding what is a race (races.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from snap._compiler.ir import synced
from snap._compiler.ir.acts import BoxOp
from snap._compiler.ir.hardware import WARP, WARPGROUP
from snap._compiler.ir.types import scalar_of
from snap.machine.errors import FaultKind, MachineError, Race, RaceAccess, RaceReason, SideKind
from snap.machine.flight.mbarriers import Gate, Slot
from snap.machine.lanes.boxes import BoxSpec, boxes, claim, deliver, fetched
from snap.machine.lanes.lanes import FaultSite, LogKind
from snap.machine.lanes.locals import owner
from snap.machine.lanes.numbers import REGISTER
from snap.machine.lanes.storage import StorageView
from snap.machine.lanes.tensor import TileSpec, WgmmaSpec, check_written, matrix
from snap.machine.schedule.races import ATOMIC, READ, WRITE

if TYPE_CHECKING:
    from snap.machine.flight.copies import Landing
    from snap.machine.schedule.adversarial import Schedule
    from snap.machine.schedule.warp_lanes import WarpLanes

_HABITS = (0.0, 0.0, 0.3, 1.0)  # how likely something is to happen early
_WARPS = 4  # of a warpgroup
_MANY = 64  # boxes kept before those that are over are dropped


# ---- boxes ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class BoxLoad:
    """A box on its way into one block's shared memory."""

    verb = SideKind.COPY_TO
    comes = True  # by itself, whoever waits

    view: StorageView
    cells: np.ndarray
    array: StorageView
    origin: np.ndarray
    inside: np.ndarray | None
    tf32: bool
    slot: Slot | None
    token: int
    site: FaultSite
    block: int
    over: bool = False

    def go_on(self) -> bool:
        """Something happens; returns whether all has."""
        self.view.put_bits(self.cells, fetched(self.array, self.origin, self.inside, self.tf32))
        self.over = True
        if self.slot is not None:
            self.slot.deliver(len(self.cells) * self.view.flat.dtype.itemsize, self.token)
        return True


@dataclass(slots=True, eq=False)
class BoxStore:
    """A box on its way out: `held` is what was read.  `token` is known to whoever knows that it was read, `written`
    that it is there.
    """

    verb = SideKind.COPY_FROM
    comes = False

    op: BoxOp
    view: StorageView
    cells: np.ndarray
    array: StorageView
    origin: np.ndarray
    inside: np.ndarray | None
    token: int
    written: int
    site: FaultSite
    block: int
    held: np.ndarray | None = None
    over: bool = False

    def go_on(self) -> bool:
        if self.held is None:
            self.read()
            return False
        self.finish()
        return True

    def read(self) -> None:
        if self.held is None:
            check_written(self.view, self.cells, self.site)
            self.held = self.view.flat.take(self.cells)

    def finish(self) -> None:
        self.read()
        if not self.over:
            deliver(self.op, self.array, self.origin, self.inside, self.held)
            self.over = True


@dataclass(slots=True, eq=False)
class Bulk:
    """The stores of one thread: those of no group yet, and its groups, oldest first."""

    loose: list[BoxStore] = field(default_factory=list)
    groups: list[list[BoxStore]] = field(default_factory=list)


class Air:
    """All boxes of a launch that are in flight, arrivals of copies, and how they tend to behave."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.boxes: list[BoxLoad | BoxStore | Landing] = []
        # Token, memory, place, what it does, and the block whose memory it is.
        self.issued: list[tuple[int, str, FaultSite, SideKind, int]] = []
        dice = schedule.dice
        self.at_issue, self.later = (float(dice.choice(_HABITS)) for _ in range(2))

    def add(self, box: BoxLoad | BoxStore | Landing) -> None:
        self.issued.append((box.token, box.view.name, box.site, box.verb, box.block))
        if self.schedule.dice.random() >= self.at_issue or not box.go_on():
            self.boxes.append(box)

    def drift(self) -> None:
        """A moment at which something may happen."""
        if self.boxes and self.schedule.dice.random() < self.later:
            self.push(self.boxes)
        if len(self.boxes) > _MANY:
            self.boxes = [box for box in self.boxes if not box.over]

    def force(self) -> bool:
        """Nobody can go on: a load arrives, if there is one, or copies do."""
        self.boxes = [box for box in self.boxes if not box.over]
        coming = [box for box in self.boxes if box.comes]
        if coming:
            self.push(coming)
        return bool(coming)

    def push(self, among: list) -> None:
        box = among[int(self.schedule.dice.integers(len(among)))]
        if box.over or box.go_on():
            self.boxes.remove(box)


def stretches(cells: np.ndarray, item: int, base: int) -> tuple[np.ndarray, int]:
    """Scalars (in order) as bytes in pieces of one size, as large as their places allow: the pieces' addresses and
    their size.
    """
    breaks = np.flatnonzero(np.diff(cells) != 1) + 1
    ends = np.concatenate(([0], breaks, [len(cells)]))
    starts, lengths = cells[ends[:-1]] * item + base, np.diff(ends) * item
    common = int(np.gcd.reduce(np.concatenate((starts, lengths))))
    size = min(common & -common, 128)
    if lengths.min() == lengths.max():
        return (starts[:, None] + np.arange(lengths[0] // size) * size).reshape(-1), size
    pieces = [start + np.arange(length // size) * size for start, length in zip(starts.tolist(), lengths.tolist())]
    return np.concatenate(pieces), size


def issue(
    warp: WarpLanes, spec: BoxSpec, tile: tuple, origin: tuple, m, claims: tuple, barrier: synced.MBarrier | None, slot
) -> None:
    """Each lane of `m` issues a box."""
    schedule: Schedule = warp.launch
    made = boxes(warp, spec, tile, origin, m)
    claim(warp, made, claims)
    for k, lane in enumerate(made.columns.tolist()):
        which = slice(k, k + 1)
        cells = made.tile(which)[0]
        outer, inside = made.outside(which)
        outer, inside = outer[0], None if inside is None else inside[0]
        if not spec.loads:
            _store(warp, lane, spec, made.view, cells, made.array, outer, inside)
            continue
        blocks = [warp.number]
        if spec.copies:
            size = schedule.blocks_per_cluster
            part = spec.share(warp.number, size, made.view.width)
            cells, outer, inside = cells[part], outer[part], None if inside is None else inside[part]
            blocks = spec.receivers(warp.number, size)
        number = 0 if slot is None else int(np.broadcast_to(slot, warp.shape)[0, lane])
        for block in blocks:
            there = cells + (block - warp.number) * made.view.stride
            counted = None if barrier is None else schedule.slot(barrier, block, number, spec.site)
            token = schedule.token()
            _log(warp, lane, made.view, there, WRITE, spec.tile.site, token, SideKind.COPY_TO)
            _log_global(warp, lane, made.array, outer, inside, READ, spec.site, token, SideKind.COPY_FROM)
            schedule.air.add(
                BoxLoad(made.view, there, made.array, outer, inside, spec.tf32, counted, token, spec.tile.site, block)
            )


def _store(
    warp: WarpLanes, lane: int, spec: BoxSpec, view: StorageView, cells, array: StorageView, outer, inside
) -> None:
    schedule: Schedule = warp.launch
    token, written = schedule.token(), schedule.token()
    _log(warp, lane, view, cells, READ, spec.tile.site, token, SideKind.COPY_FROM)
    _log_global(
        warp, lane, array, outer, inside, ATOMIC if spec.op.combines else WRITE, spec.site, written, SideKind.COPY_TO
    )
    store = BoxStore(spec.op, view, cells, array, outer, inside, token, written, spec.tile.site, warp.number)
    warp.bulk.setdefault(lane, Bulk()).loose.append(store)
    schedule.air.add(store)


def _log(
    warp: WarpLanes, lane: int, view: StorageView, cells, kind: LogKind, site: FaultSite, token: int, verb: SideKind
) -> None:
    if view.record is not None and len(cells):
        warp.log_stretches(view, cells, lane, kind, site, token, verb)


def _log_global(
    warp: WarpLanes,
    lane: int,
    view: StorageView,
    cells,
    inside,
    kind: LogKind,
    site: FaultSite,
    token: int,
    verb: SideKind,
) -> None:
    _log(warp, lane, view, cells if inside is None else cells[inside], kind, site, token, verb)


def commit_bulk(warp: WarpLanes, m) -> None:
    for lane in np.flatnonzero(warp.active(m)[0]).tolist():
        bulk = warp.bulk.setdefault(lane, Bulk())
        bulk.groups.append(bulk.loose)
        bulk.loose = []


def wait_bulk(warp: WarpLanes, younger: int, m, read_only: bool) -> None:
    """Until at most so many of the youngest groups are in flight; `read_only`: until their memory was read."""
    for lane in np.flatnonzero(warp.active(m)[0]).tolist():
        bulk = warp.bulk.get(lane)
        if bulk is None:
            continue
        tokens, covered = 0, max(0, len(bulk.groups) - younger)
        for store in (store for group in bulk.groups[:covered] for store in group):
            store.read() if read_only else store.finish()
            tokens |= store.token if read_only else store.token | store.written
        if not read_only:
            del bulk.groups[:covered]
        if tokens:
            warp.segment = warp.segment.told(np.array([lane]), tokens)


# ---- products -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class WarpShare:
    """One warp's part of a product: its registers, and where the tiles begin."""

    warp: WarpLanes
    acc: list | None
    a: list | tuple[StorageView, np.ndarray] | None
    b: tuple[StorageView, np.ndarray] | None
    zero: bool
    group: int = -1
    covered: bool = False


@dataclass(slots=True, eq=False)
class WgmmaInFlight:
    spec: WgmmaSpec
    token: int
    parts: list[WarpShare | None]

    def share(self, w: int) -> WarpShare:
        """Return what warp `w` of the warpgroup has issued."""
        part = self.parts[w]
        assert part is not None, "the warp has issued it"
        return part

    @property
    def ready(self) -> bool:
        return all(part is not None for part in self.parts)

    def execute(self) -> None:
        spec = self.spec
        parts: list[Any] = self.parts  # all there: `ready`
        if spec.a is None:
            values = [np.stack([np.broadcast_to(x, (1, WARP))[0] for x in spec.a_values(part.a)]) for part in parts]
            left = spec.from_registers(np.concatenate(values, axis=1)[:, None, :])
        else:
            left = spec.from_tile(self._tile(spec.a, *parts[0].a), spec.a, spec.a_transposed)
        right = spec.from_tile(self._tile(spec.b, *parts[0].b), spec.b, spec.b_transposed)
        dtype = REGISTER[scalar_of(spec.acc.seen)]
        before = np.empty((1, spec.n // 2, WARPGROUP), dtype)
        for w, part in enumerate(parts):
            for i, x in enumerate(spec.before(part.acc)):
                before[0, i, WARP * w : WARP * w + WARP] = x
        after = spec.total(left, right, before, np.array([parts[0].zero]))
        for w, part in enumerate(parts):
            spec.put(part.acc, list(after[0, :, None, WARP * w : WARP * w + WARP]))
            part.acc = part.a = part.b = None  # a long run has many

    def _tile(self, tile: TileSpec, view: StorageView, cells: np.ndarray) -> np.ndarray:
        check_written(view, cells, tile.site)
        return view.flat.take(cells)[None]


class Products(Gate):
    """Hold the wgmma of one warpgroup: for each warp, how many it has issued, and the groups it has committed."""

    def __init__(self, schedule: Schedule):
        super().__init__(schedule)
        self.all: list[WgmmaInFlight] = []
        self.issued, self.committed, self.first = [0] * _WARPS, [0] * _WARPS, [0] * _WARPS
        self.executed = 0
        self.later = float(schedule.dice.choice(_HABITS))

    def why(self) -> str:
        missing = [w for w in range(_WARPS) if self.issued[w] <= self.executed]
        return f"the wgmma waits for warp {missing[0] if missing else 0} of the warpgroup, which never issues it"

    def issue(self, warp: WarpLanes, spec: WgmmaSpec, acc: list, a, b, zero: bool) -> WgmmaInFlight:
        w = _number(warp)
        if self.issued[w] == len(self.all):
            self.all.append(WgmmaInFlight(spec, self.schedule.token(), [None] * _WARPS))
        product = self.all[self.issued[w]]
        if product.spec is not spec:
            raise MachineError(
                FaultKind.BARRIER_MISMATCH,
                "warps of one warpgroup issue different wgmma",
                spec.site.span,
                warp.number,
                int(warp.thread[0, 0]),
                secondary=((product.spec.site.span, "another warp is here"),),
            )
        product.parts[w] = WarpShare(warp, acc, a, b, zero)
        self.issued[w] += 1
        if product.ready:
            self.open()
        self.drift()
        return product

    def commit(self, warp: WarpLanes) -> None:
        w = _number(warp)
        for product in self.all[self.first[w] : self.issued[w]]:
            share = product.share(w)
            if share.group < 0:
                share.group = self.committed[w]
        self.committed[w] += 1

    def wait(self, warp: WarpLanes, younger: int, site: FaultSite):
        """Until at most so many of the warp's youngest groups are in flight."""
        w = _number(warp)
        last = self.first[w]
        while last < self.issued[w] and 0 <= self.all[last].share(w).group < self.committed[w] - younger:
            last += 1
        if last == self.first[w]:
            return
        while not self.all[last - 1].ready:
            self.site = site
            yield self
        self.execute(last)
        tokens = 0
        for product in self.all[self.first[w] : last]:
            product.share(w).covered = True
            tokens |= product.token
            warp.release_registers(product)
        self.first[w] = last
        warp.segment = warp.segment.told(np.arange(warp.shape[1]), tokens)

    def execute(self, until: int) -> None:
        while self.executed < until:
            self.all[self.executed].execute()
            self.executed += 1

    def drift(self) -> None:
        if self.executed < len(self.all) and self.all[self.executed].ready and self.schedule.dice.random() < self.later:
            self.execute(self.executed + 1)


def _number(warp: WarpLanes) -> int:
    return int(warp.thread[0, 0]) % WARPGROUP // WARP


@dataclass(slots=True, eq=False)
class Registers:
    """A local array that products use: those in flight that add to it or read it, and when a thread last touched it."""

    values: list  # keeps its identity from being reused
    adding: list[WgmmaInFlight] = field(default_factory=list)
    reading: list[WgmmaInFlight] = field(default_factory=list)
    touched: int = 0


def multiply(warp: WarpLanes, spec: WgmmaSpec, acc: list, a, b: tuple, zero, m) -> None:
    """One warp issues its part.  `a`: registers, or view, index and dimensions of a tile, as `b`."""
    if not warp.active(m).all():
        raise MachineError(
            FaultKind.BARRIER_MISMATCH,
            "only some threads of a warp execute this wgmma",
            spec.site.span,
            warp.number,
            int(warp.thread[0, int(warp.active(m)[0].argmax())]),
        )
    if spec.first:
        warp.register_fences += 1
    where = [None if tile is None else _cells(tile, *what) for tile, what in ((spec.a, a), (spec.b, b))]
    left = a if spec.a is None else (a[0], where[0])
    made = warp.products.issue(
        warp, spec, acc, left, (b[0], where[1]), zero is not None and bool(np.asarray(zero).flat[0])
    )
    if spec.a is not None:
        rows = matrix(np.asarray(where[0])[None], spec.a.shape)[0]
        w = _number(warp)
        own = rows[:, 16 * w : 16 * w + 16] if spec.a_transposed else rows[16 * w : 16 * w + 16]
        _log(warp, 0, a[0], own.reshape(-1), READ, spec.a.site, made.token, SideKind.MULTIPLY)
    _log(warp, 0, b[0], where[1], READ, spec.b.site, made.token, SideKind.MULTIPLY)
    warp.use_registers(acc, made, spec.names[0], adds=True)
    if spec.a is None:
        warp.use_registers(a, made, spec.names[1], adds=False)


def _cells(tile: TileSpec, view: StorageView, index: tuple, dims) -> np.ndarray:
    return tile.start(view, index, dims, None)[0, 0] + tile.offsets(view, dims)


class RegisterFile:
    """A warp's arrays that products use, as part of `WarpLanes`, which sets these."""

    launch: Schedule
    number: int
    thread: Any
    registers: dict[int, Registers]
    register_fences: int

    def use_registers(self, values: list, product: WgmmaInFlight, name: str, adds: bool) -> None:
        values = owner(values)
        found = self.registers.get(id(values))
        if found is None:
            before = max(self.register_fences - 1, 0)  # the last fence, if there was one
            found = self.registers[id(values)] = Registers(values, touched=before)
        site = FaultSite(product.spec.site.span, name)
        if found.touched == self.register_fences:
            self.register_race(product, name, site, SideKind.WRITE, RaceReason.FENCE)
        for other in (*found.reading, *found.adding) if adds else found.adding:
            follows = adds and other in found.adding and other.spec.n == product.spec.n
            if other is not product and not follows:
                self.register_race(other, name, site, SideKind.MULTIPLY, RaceReason.REGISTERS)
        (found.adding if adds else found.reading).append(product)

    def touch(self, values: list, write: bool, site: FaultSite) -> None:
        """A thread reads or writes the array."""
        found = self.registers.get(id(owner(values)))
        if found is None:
            return
        found.touched = self.register_fences
        for product in found.adding + (found.reading if write else []):
            verb = SideKind.WRITE if write else SideKind.READ
            self.register_race(product, site.name, site, verb, RaceReason.REGISTERS)

    def release_registers(self, product: WgmmaInFlight) -> None:
        """A wait covers the product."""
        for found in self.registers.values():
            found.adding = [other for other in found.adding if other is not product]
            found.reading = [other for other in found.reading if other is not product]

    def register_race(
        self, product: WgmmaInFlight, name: str, site: FaultSite, verb: SideKind, reason: RaceReason
    ) -> None:
        thread = int(self.thread[0, 0])
        key = (name, product.spec.site.span, site.span, verb, reason)
        sides = (
            RaceAccess(SideKind.MULTIPLY, product.spec.site.span, self.number, thread),
            RaceAccess(verb, site.span, self.number, thread),
        )
        self.launch.log.races.setdefault(key, Race(name, 0, *sides, reason=reason))
