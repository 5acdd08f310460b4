"""Adversarial mode: the synchronized IR, warp by warp, in an order drawn from a seed.

Input: a kernel with its barriers.  Output: the arrays, written in place; data races in `races`, or raised.  Each warp
is a generator that runs ahead until it waits at a barrier, or is stopped at a random statement; blocks interleave too,
and copies arrive when they like. Invariant: a barrier releases nobody before all of its group have come; what cannot go
on is reported, nothing hangs. Non-goals: speed on large grids.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from snap._compiler.ir import synced
from snap._compiler.ir.hardware import SWIZZLE_PERIOD, WARP, WIDEST
from snap._compiler.ir.strides import NUMBERS, GroupShape
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.walk import at_launch, statements
from snap.machine import watching
from snap.machine.errors import FaultKind, MachineError, Race
from snap.machine.flight.copies import Copies
from snap.machine.flight.flights import Air, Products
from snap.machine.flight.mbarriers import Gate, Meeting, Slot, TurnGate
from snap.machine.lanes.lanes import WAITING_HELP, FaultSite, MachineLaunch
from snap.machine.lanes.printing import Postponed, Say, say, silent
from snap.machine.lanes.warps import combine
from snap.machine.reference import argument, bound, indices
from snap.machine.schedule import clocks
from snap.machine.schedule.clocks import Segment
from snap.machine.schedule.endings import look_at_the_end
from snap.machine.schedule.handed import HandedOn
from snap.machine.schedule.races import RaceLog
from snap.machine.schedule.standstill import Kept
from snap.machine.schedule.warp_lanes import Arrival, SharedArena, WarpLanes
from snap.machine.source.program import Program, program_for

# What stops a launch that also has races: said rather than these.
STOPPED = (FaultKind.BARRIER_MISMATCH, FaultKind.NO_PROGRESS, FaultKind.WRONG_PHASE)
_STEPS = 20_000_000  # that all warps together certainly do not need: a step is what a warp runs before it stops


def run_adversarial(
    function: synced.Function,
    args: list,
    blocks: int,
    seed: int,
    races: list | None = None,
    only: Sequence[int] | None = None,
) -> None:
    """Run a kernel in synchronized IR; races are appended to `races`, or the first one is raised where that is None.
    Who looks for races, in many orders, is not told what the kernel prints in each of them.  only: the blocks that run,
    whole clusters; None for all.
    """
    if blocks <= 0:
        return
    program = program_for(function, stepwise=True)
    before = Kept(function, args, bool(program.waiting))
    printed = Postponed(bool(program.waiting), say if races is None else silent)
    running = range(blocks) if only is None else only
    error, found = _run(program, args, blocks, running, seed, printed.say, races)
    if program.waiting and error is not None and error.kind is FaultKind.NO_PROGRESS:
        before.restore()
        printed.forget()
        each = program_for(function, stepwise=True, apart=True)
        error, found = _run(each, args, blocks, running, seed, printed.say, races)
    printed.show()
    if races is not None:
        races.extend(found)
    if error is not None and (not found or error.kind in STOPPED):
        raise error
    if races is None and found:
        raise found[0].error()


def run_one_by_one(function: synced.Function, args: list, blocks: int) -> None:
    """Run a kernel in synchronized IR, each thread on its own where it waits for others, in one order that is always
    the same; races are not looked for.  Blocks that need not be resident together run one after the other (clusters,
    where there are some).
    """
    program = program_for(function, stepwise=True, apart=True)
    launch = Schedule(function, blocks, program.threads, program.blocks_per_cluster, random.Random(0))
    launch.log.add = lambda where, entry: None  # type: ignore[method-assign]
    launch.fuel_scale, launch.favours = 400, False
    batch = blocks if function.cooperative else launch.blocks_per_cluster
    with np.errstate(all="ignore"):
        for first in range(0, blocks, batch):
            _start(launch, program, args, range(first, min(first + batch, blocks)))
            launch.run()
        launch.settle()
    if launch.uninitialized is not None:
        raise launch.uninitialized


def _run(
    program: Program, args: list, blocks: int, running: Sequence[int], seed: int, say: Say, races: list | None
) -> tuple[MachineError | None, list[Race]]:
    """The blocks that run, in an order drawn from the seed: what went wrong, and the races.  Where the run is stopped
    from outside, those that were seen until then are in `races`.
    """
    launch = Schedule(program.kernel, blocks, program.threads, program.blocks_per_cluster, random.Random(seed))
    launch.say = say
    error = None
    with np.errstate(all="ignore"):
        _start(launch, program, args, running)
        try:
            launch.run()
            launch.settle()
        except MachineError as raised:
            error = raised
        except (KeyboardInterrupt, watching.OutOfTime):
            if races is not None:
                launch.log.look()
                races.extend(launch.log.races.values())
            raise
        if error is None:
            look_at_the_end(launch)
        else:
            launch.log.look()
    return error or launch.uninitialized, list(launch.log.races.values())


def _start(launch: Schedule, program: Program, args: list, blocks: Sequence[int]) -> None:
    function = program.kernel
    values = [argument(p, value) for p, value in zip(function.params, args)]
    end = FaultSite(function.span, "the end of the kernel")
    for lanes in launch.lanes_of(blocks):
        steps = program.run(lanes, None, *indices(lanes), 0, *bound(function, values, lanes, lanes.record))
        launch.start(lanes, _ending_together(lanes, steps, end) if program.ends_together else steps)


def _ending_together(lanes: WarpLanes, steps: Generator, end: FaultSite) -> Generator:
    """Let no block of a cluster end before the others where they write to each other's memory asynchronously."""
    yield from steps
    yield from lanes.meet(PointKind.CLUSTER, lanes.thread, 0, None, end, "", None, 0)


@dataclass(slots=True, eq=False)
class Warp:
    lanes: WarpLanes
    steps: Generator[Any, Any, None]
    waits: list[tuple] = field(default_factory=list)
    gate: Gate | None = None
    answer: object = None
    done: bool = False


@dataclass(slots=True, eq=False)
class Gathering:
    """Hold the threads of a group that have reached its barrier so far."""

    size: int
    arrivals: list[tuple[Warp, Arrival, np.ndarray]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(len(lanes) for _, _, lanes in self.arrivals)


class Schedule(MachineLaunch):
    """Decide who runs next, and hold who waits."""

    def __init__(
        self, kernel: synced.AnyFunction, blocks: int, threads: int, blocks_per_cluster: int | None, rng: random.Random
    ):
        super().__init__(blocks, threads, blocks_per_cluster)
        self.kernel, self.rng = kernel, rng
        self.log = RaceLog(forgets=self.blocks_per_cluster == 1)
        self.uninitialized: MachineError | None = None
        self.behind = -(-kernel.smem // SWIZZLE_PERIOD) * SWIZZLE_PERIOD  # arrays whose size the launch decides
        self.arenas: dict[int, SharedArena] = {}  # by cluster
        self.handed: dict[tuple, HandedOn] = {}  # by memory and address, where something was released
        self.warps: list[Warp] = []
        self.barriers: dict[tuple, Gathering] = {}
        self.fuel_scale = rng.choice((1, 4, 30, 400, 4000))
        self.favours = rng.random() < 0.5  # some warps run far ahead of the others
        self.copying: list[Copies] = []
        self.copies_arrive = any(isinstance(s, synced.MBarrierArrive) and s.copies for s in statements(kernel.body))
        self.slots: dict[tuple[int, int, int], Slot] = {}
        self.meetings: dict[tuple, Meeting] = {}
        self.turns: dict[tuple, TurnGate] = {}
        self.products: dict[tuple[int, int], Products] = {}
        self.numbers: dict[tuple[int, int], tuple] = {}  # of named barriers, by block: which was the last
        self.woken: list[Warp] = []
        self.tokens = 0
        # Arrivals in other blocks: block, barrier, place, segment and lane.
        self.remote: list[tuple[int, str, FaultSite, Segment, int]] = []
        self.ended: dict[int, list[Segment]] = {}  # by block, what its warps knew at the end

    @cached_property
    def dice(self) -> np.random.Generator:
        """For copies; asked for only where there are some, so that the orders of all other kernels do not
        depend on it.
        """
        return np.random.default_rng(self.rng.getrandbits(64))

    @cached_property
    def air(self) -> Air:
        return Air(self)

    def token(self) -> int:
        """A bit of its own for what ends asynchronously, or is fenced."""
        self.tokens += 1
        return 1 << self.tokens

    def arena(self, cluster: int) -> SharedArena:
        if cluster not in self.arenas:
            size = max(self.behind + at_launch(self.kernel), WIDEST)
            self.arenas[cluster] = SharedArena(size, self.blocks_per_cluster)
        return self.arenas[cluster]

    def cluster_of(self, block: int) -> list[int]:
        first = block // self.blocks_per_cluster * self.blocks_per_cluster
        return list(range(first, first + self.blocks_per_cluster))

    def slot(self, barrier: synced.MBarrier, block: int, number: int, site: FaultSite) -> Slot:
        if not 0 <= number < barrier.slots:
            raise MachineError(
                FaultKind.OUT_OF_BOUNDS,
                f"slot {number} of `{barrier.name}`, which has {barrier.slots}",
                site.span,
                block,
            )
        key = (barrier.uid, block, number)
        if key not in self.slots:
            self.slots[key] = Slot(self, barrier, block, number)
        return self.slots[key]

    def lanes_of(self, blocks: Sequence[int]) -> list[WarpLanes]:
        return [WarpLanes(self, block, first) for block in blocks for first in range(0, self.threads, WARP)]

    def start(self, lanes: WarpLanes, steps: Generator) -> None:
        self.warps.append(Warp(lanes, steps))

    def run(self) -> None:
        ready = [w for w in self.warps if not w.done]
        self.rng.shuffle(ready)
        watch = watching.current()
        watching.at(self._ended_so_far)
        for _ in range(_STEPS):
            if watch is not None:
                watch.tick()
            if not ready and not self._something_arrives(ready):
                break
            at = len(ready) - 1 if self.favours else self.rng.randrange(len(ready))
            warp = ready.pop(at)
            ready += self.advance(warp, ready)
            if self.woken:
                ready += self._awake()
            if self.log.full:
                self.log.look(self._oldest_phases())
        waiting = [w for w in self.warps if not w.done]
        if ready:
            raise MachineError(
                FaultKind.NO_PROGRESS, "the kernel does not end", self.kernel.span, note=f"after {_STEPS} steps"
            )
        if waiting:
            self._mismatch(waiting)

    def _ended_so_far(self) -> str:
        return f"{sum(w.done for w in self.warps):,} of {len(self.warps):,} warps have ended"

    def _awake(self) -> list[Warp]:
        woken, self.woken = self.woken, []
        self.rng.shuffle(woken)
        for warp in woken:
            warp.gate = None
        return woken

    def _something_arrives(self, ready: list[Warp]) -> bool:
        """Nobody can go on: copies arrive until somebody can."""
        while not ready and "air" in self.__dict__ and self.air.force():
            ready += self._awake()
        return bool(ready)

    def settle(self) -> None:
        """The kernel has ended: what is still in flight happens."""
        if "air" in self.__dict__:
            for box in list(self.air.boxes):
                while not box.over:
                    box.go_on()
        for products in self.products.values():
            products.execute(next((k for k, p in enumerate(products.all) if not p.ready), len(products.all)))

    def fuel(self) -> int:
        """Draw how many statements a warp runs before another one goes on."""
        return 1 + int(self.rng.expovariate(1 / self.fuel_scale))

    def advance(self, warp: Warp, ready: list[Warp]) -> list[Warp]:
        """Let a warp run on; returns those that are ready because of it."""
        if self.copying:
            self.rng.choice(self.copying).drift()
        if "air" in self.__dict__:
            self.air.drift()
        warp.lanes.fuel = self.fuel()
        answer, warp.answer = warp.answer, None
        try:
            said = warp.steps.send(answer)
        except StopIteration:
            warp.done = True
            self.ended.setdefault(warp.lanes.number, []).append(warp.lanes.segment)
            return []
        if isinstance(said, Gate):
            warp.gate = said
            said.waiting.append(warp)
            return []
        if said is None:
            self._check_progress(warp, ready)
            if self.favours:
                # Whoever was stopped goes behind some of the others, so that none waits for ever.
                ready.insert(self.rng.randrange(len(ready) + 1), warp)
                return []
            return [warp]
        return self._arrive(warp, said)

    def _check_progress(self, warp: Warp, ready: list[Warp]) -> None:
        """Every warp that could run goes round a loop in which nothing changes."""
        if warp.lanes.stuck_at == self.changes and all(w.lanes.stuck_at == self.changes for w in ready):
            if "air" in self.__dict__ and self.air.force():
                return
            self._standstill(warp, ready)

    def _standstill(self, warp: Warp, ready: list[Warp]) -> None:
        """Whoever could run waits in vain: one loop, and where the others are."""
        block = warp.lanes.number
        loops = {site.span: "waits here, too" for w in (warp, *ready) for site in w.lanes.waiting_at}
        blocked = {
            self.barriers[at].arrivals[0][1].site.span: "threads wait at this barrier"
            for w in self.warps
            for at in w.waits
        }
        here = min((site.span for site in warp.lanes.waiting_at), key=lambda span: span.line)
        others = sorted(
            ((span, text) for span, text in (loops | blocked).items() if span != here), key=lambda pair: pair[0].line
        )
        raise MachineError(
            FaultKind.NO_PROGRESS,
            "this loop waits for something that no thread will do",
            here,
            block,
            secondary=tuple(others[:4]),
            help=WAITING_HELP,
        )

    def _oldest_phases(self) -> dict[int, int]:
        oldest: dict[int, int] = {}
        for warp in self.warps:
            if not warp.done:
                segment = warp.lanes.segment
                oldest[segment.block] = min(segment.phase, oldest.get(segment.block, segment.phase))
        return {block: oldest.get(block, 1 << 60) for block in range(self.blocks)}

    # ---- barriers ----

    def _arrive(self, warp: Warp, arrival: Arrival) -> list[Warp]:
        for key, (size, lanes) in arrival.groups.items():
            at = (*key, id(arrival.site))
            if arrival.op == "" and arrival.source:
                self._take_number(at, arrival)
            self.barriers.setdefault(at, Gathering(size)).arrivals.append((warp, arrival, lanes))
            warp.waits.append(at)
        released: list[Warp] = []
        for at in list(warp.waits):
            barrier = self.barriers[at]
            if barrier.count == barrier.size:
                del self.barriers[at]
                released += self._release(at, barrier)
        self.rng.shuffle(released)
        return released

    def _take_number(self, at: tuple, arrival: Arrival) -> None:
        """The hardware tells named barriers apart by their numbers alone."""
        _, block, start, shape, _ = at
        number = (block, arrival.source + (shape.number(start, NUMBERS) if shape else 0))
        other = self.barriers.get(self.numbers.get(number, at))
        if other is not None and self.numbers[number] != at:
            raise MachineError(
                FaultKind.BARRIER_MISMATCH,
                f"barrier {number[1]} of the block is used at two places at a time",
                arrival.site.span,
                block,
                secondary=((other.arrivals[0][1].site.span, "threads wait here"),),
            )
        self.numbers[number] = at

    def _release(self, at: tuple, barrier: Gathering) -> list[Warp]:
        kind = at[0]
        warps = [warp for warp, _, _ in barrier.arrivals]
        if kind is not PointKind.NAMED:
            segments = [w.lanes.segment for w in warps]
            known = clocks.known_of_others(segments)
            if kind is PointKind.CLUSTER:
                known.add(clocks.over(segments, self.threads))
            for w in warps:
                w.lanes.segment = w.lanes.segment.whole(
                    cluster=kind is not PointKind.BLOCK, grid=kind is PointKind.GRID, known=known
                )
        else:
            segments = clocks.joined([(w.lanes.segment, lanes) for w, _, lanes in barrier.arrivals], self.threads)
            for w, segment in zip(warps, segments):
                w.lanes.segment = segment
        _, arrival, _ = barrier.arrivals[0]
        if arrival.value is not None:
            first = min(w.lanes.number for w in warps)
            values = np.zeros((barrier.size // self.threads, self.threads), arrival.value.dtype)
            for w, a, _ in barrier.arrivals:
                values[w.lanes.number - first, w.lanes.thread[0]] = a.value
            answer = combine(arrival.op, values, arrival.source, len(values))
            for w in warps:
                w.answer = answer
        for w in warps:
            w.waits.remove(at)
        return [w for w in warps if not w.waits]

    def _mismatch(self, waiting: list[Warp]) -> None:
        at_gates = [w for w in waiting if w.gate is not None]
        if at_gates:
            self._stuck(at_gates, len(waiting))
        at = waiting[0].waits[0]
        barrier = self.barriers[at]
        warp, arrival, lanes = barrier.arrivals[0]
        block, thread = int(warp.lanes.block[0, 0]), int(warp.lanes.thread[0, lanes[0]])
        here = {w.lanes for w, _, _ in barrier.arrivals}
        missing = [w for w in self.warps if w.lanes not in here and _concerns(at, w.lanes)]
        text = f"only {barrier.count} of {barrier.size} threads ever arrive here"
        secondary: tuple = ()
        note = "threads of one warp have diverged"
        if missing:
            other = missing[0]
            who = f"block {int(other.lanes.block[0, 0])}, thread {int(other.lanes.thread[0, 0])}"
            note = f"{who} has finished" if other.done else f"{who} waits at another barrier"
            if not other.done:
                secondary = ((self.barriers[other.waits[0]].arrivals[0][1].site.span, f"{who} waits here"),)
        raise MachineError(
            FaultKind.BARRIER_MISMATCH, text, arrival.site.span, block, thread, secondary=secondary, note=note
        )

    def _stuck(self, at_gates: list[Warp], count: int) -> None:
        """Warps wait for what never comes: the first says so, the others say where they are."""
        gates = list({id(w.gate): w.gate for w in at_gates if w.gate is not None}.values())
        first = at_gates[0]
        secondary = tuple((gate.where.span, gate.why()) for gate in gates[1:4])
        raise MachineError(
            FaultKind.BARRIER_MISMATCH,
            gates[0].why(),
            gates[0].where.span,
            first.lanes.number,
            int(first.lanes.thread[0, 0]),
            secondary=secondary,
            note=f"this is for `{gates[0].where.name}`; {count} warps wait and nothing is in flight",
        )


def _concerns(key: tuple, lanes: WarpLanes) -> bool:
    """Test whether a warp has threads in the barrier's group."""
    kind, group, first, n = key[:4]
    block = int(lanes.block[0, 0])
    if kind is PointKind.GRID:
        return True
    if kind is PointKind.CLUSTER:
        return block // lanes.launch.blocks_per_cluster == group
    members = n.members if isinstance(n, GroupShape) else range(n)
    return block == group and (not n or bool(np.isin(lanes.thread[0] - first, members).any()))
