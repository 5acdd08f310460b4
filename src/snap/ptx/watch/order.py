"""Decide what happens before what, in a run of PTX.

Input: what threads execute.  Output: for each warp the segment it is in (machine/schedule/clocks.py): what its threads
know of others.  Rules (PTX ISA, "Memory Consistency Model"; what counts, and nothing else):

- program order of one thread;
- `bar.sync`, `bar.red`, `bar.arrive` to those that wait; `bar.warp.sync` between its members; not shuffles or votes;
- a release to an acquire that reads from it, at one of three places: a location, an mbarrier, the barrier of a cluster.
  Who writes there: `st`, `atom`, `red` that are strong (`.relaxed`, `.release`, `.acq_rel`, `.volatile`);
  `mbarrier.arrive`; `barrier.cluster.arrive`.  It releases if it is `.release`, which barriers are unless they are
  `.relaxed`, or behind a fence of its thread (`fence`, `membar`).  Who reads: `ld`, `atom` that are strong;
  `mbarrier.try_wait` and `test_wait` that see the phase over; `barrier.cluster.wait`.  It acquires if it is `.acquire`
  (as barriers are), or before a fence.  An atomic, and an arrival, hand on what the writes before them released;
  another thread's store does not.  The scopes of both sides, and of their fences, must reach each other;
- `fence.mbarrier_init` releases as a fence of the cluster does, but `mbarrier.init` of its thread alone;
- the bytes that copies bring to an mbarrier to those who see that its phase is over;
- what is issued and ends asynchronously (`cp.async`, TMA, `wgmma`), to who waits for its group or its mbarrier.

Invariant: a segment is never changed, only replaced, so that whoever keeps one knows what was known then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from snap.machine.schedule import clocks
from snap.machine.schedule.clocks import Released, Segment
from snap.machine.schedule.handed import HandedOn, ReachedGroup, ReleasedTo, add, both, groups_of, known_to
from snap.ptx.machine.lanes import Lanes

if TYPE_CHECKING:
    from snap.ptx.instructions.mbarriers import Mbarrier
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction
    from snap.ptx.watch.observer import BarrierKey

WARP = 32
SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "gl": 2, "sys": 2}
Location = tuple[str, int]  # space and byte


def scope_of(words: tuple[str, ...]) -> int:
    """Return the scope of an instruction; the default is the GPU."""
    return next((SCOPES[w] for w in words if w in SCOPES), 2)


@dataclass(slots=True)
class _Gate:
    """An mbarrier: what the arrivals of the phase in progress brought, and all before."""

    barrier: Mbarrier
    phase: int = 0
    known: ReleasedTo = field(default_factory=dict)
    complete: ReleasedTo = field(default_factory=dict)


class Order:
    def __init__(self, machine: Machine):
        self.machine, self.size = machine, machine.width
        cluster = machine.shape.cluster
        self.segments: list[Segment] = []
        for first in range(0, len(machine.lane), WARP):
            block, thread = divmod(first, self.size)
            threads = np.arange(thread, thread + WARP, dtype=np.int32)
            self.segments.append(Segment.first(block, block // cluster, threads))
        self.warps = self.size // WARP  # of a block
        # By thread: what it knew at its last fence of each scope, and what it has read that a fence would acquire.
        self.fenced: dict[int, list[Segment | None]] = {}
        self.seen: dict[int, list[Released]] = {}
        self.released: dict[Location, HandedOn] = {}
        self.met: dict[tuple[int, int], list[tuple[Segment, np.ndarray, np.ndarray]]] = {}  # at barriers
        self.cluster: dict[tuple[int, int], ReleasedTo] = {}  # by cluster and phase
        self.made: dict[int, int] = {}  # by thread: tokens of its `mbarrier.init`,
        self.made_fenced: dict[int, int] = {}  # and of those that `fence.mbarrier_init` has released
        self.gates: dict[BarrierKey, _Gate] = {}
        self.tokens = 0

    def token(self) -> int:
        """A bit of its own for what ends asynchronously, or is fenced."""
        self.tokens += 1
        return 1 << self.tokens

    def of(self, lane: int) -> Segment:
        return self.segments[lane // WARP]

    def phases(self) -> dict[int, int]:
        """The oldest phase that a warp of each block is in."""
        return {b: self.segments[b * self.warps].phase for b in range(self.machine.shape.blocks)}

    def tell(self, lane: int, tokens: int) -> None:
        if tokens:
            w = lane // WARP
            self.segments[w] = self.segments[w].told(np.array([lane % WARP]), tokens)

    def by_warp(self, lanes: Lanes) -> list[tuple[int, np.ndarray]]:
        """(warp, its lanes counted from 0)."""
        if not len(lanes):
            return []
        starts = np.flatnonzero(np.append(True, np.diff(lanes // WARP) != 0))
        return [(int(part[0]) // WARP, part % WARP) for part in np.split(lanes, starts[1:])]

    # ---- barriers ---------------------------------------------------------------------------------------------------

    def arrived(self, lanes: Lanes, number: np.ndarray) -> None:
        number = np.broadcast_to(number, lanes.shape)
        for n in np.unique(number).tolist():
            for w, local in self.by_warp(lanes[number == n]):
                segment = self.segments[w]
                self.met.setdefault((w // self.warps, n), []).append((segment, local, local + w * WARP))
                self.segments[w] = clocks.moved_on(segment, local)

    def let_go(self, lanes: Lanes, full: np.ndarray) -> None:
        waiting = np.zeros(len(self.machine.lane), bool)
        waiting[lanes] = True
        for block, number in zip(*(x.tolist() for x in np.nonzero(full))):
            arrivals = self.met.pop((block, number), [])
            come = np.concatenate([some for _, _, some in arrivals]) if arrivals else lanes[:0]
            if waiting[come].all() and len(come) == self.machine.shape.threads:
                self._whole(block)
                continue
            known = Released()
            for segment, local, _ in arrivals:
                known.add(clocks.released(segment, local, self.size))
            for w, local in self.by_warp(np.sort(come[waiting[come]])):
                self.segments[w] = clocks.acquired(self.segments[w], local, known, self.size)

    def _whole(self, block: int) -> None:
        mine = range(block * self.warps, (block + 1) * self.warps)
        known = clocks.known_of_others([self.segments[w] for w in mine])
        for w in mine:
            self.segments[w] = self.segments[w].whole(cluster=False, grid=False, known=known)

    def warp_sync(self, lanes: Lanes, mask: np.ndarray) -> None:
        masks = np.broadcast_to(mask, lanes.shape)
        for w, local in self.by_warp(lanes):
            mine = masks[lanes // WARP == w]
            for m in np.unique(mine).tolist():
                members = local[mine == m]
                if len(members) > 1:
                    self.segments[w] = clocks.joined([(self.segments[w], members)], self.size)[0]

    def arrived_at_cluster(self, lanes: Lanes, releases: bool) -> None:
        for w, local in self.by_warp(lanes):
            first = w * WARP + int(local[0])
            known = self.cluster.setdefault(self._phase(first), {})
            if releases:
                segment = self.segments[w]
                add(known, {self._groups(first, 1)[1]: clocks.released(segment, local, self.size)})
                self.segments[w] = clocks.moved_on(segment, local)
            elif self.fenced or self.made_fenced:
                for lane in (local + w * WARP).tolist():
                    add(known, self._handed(lane, False, 1))

    def cluster_passed(self, lanes: Lanes) -> None:
        for w, local in self.by_warp(lanes):
            first = w * WARP + int(local[0])
            there = self.cluster.get(self._phase(first), {})
            for known in known_to(there, self._groups(first, 1)):
                self.segments[w] = clocks.acquired(self.segments[w], local, known, self.size)

    def _phase(self, lane: int) -> tuple[int, int]:
        """The cluster, and the phase in which the thread has arrived last."""
        return lane // self.size // self.machine.shape.cluster, int(self.machine.barriers.joined[lane])

    # ---- mbarriers --------------------------------------------------------------------------------------------------

    def _gate(self, key: BarrierKey, barrier: Mbarrier) -> _Gate:
        gate = self.gates.get(key)
        if gate is None or gate.barrier is not barrier:
            gate = self.gates[key] = _Gate(barrier)
        if gate.phase != barrier.phase:  # it has ended since
            add(gate.complete, gate.known)
            gate.phase, gate.known = barrier.phase, {}
        return gate

    def copied(self, key: BarrierKey, barrier: Mbarrier, tokens: int) -> None:
        """Bytes of a copy, or copies of a thread, have come."""
        known = Released({}, tokens)
        add(self._gate(key, barrier).known, dict.fromkeys(self._groups(key[0] * self.size, 2), known))

    def counted(self, key: BarrierKey, barrier: Mbarrier, lane: int, releases: bool, scope: int) -> None:
        """A thread has arrived."""
        add(self._gate(key, barrier).known, self._handed(lane, releases, scope))
        if releases:
            self._moved_on(lane)

    def passed(self, key: BarrierKey, barrier: Mbarrier, lane: int, acquires: bool, scope: int) -> None:
        self._taken(lane, self._gate(key, barrier).complete, acquires, scope)

    def init(self, lane: int) -> int:
        """A token for what a thread's `mbarrier.init` writes."""
        token = self.token()
        self.made[lane] = self.made.get(lane, 0) | token
        return token

    def fence_init(self, lanes: Lanes) -> None:
        for lane in lanes.tolist():
            if lane in self.made:
                self.made_fenced[lane] = self.made[lane]

    # ---- fences, releases, acquires ---------------------------------------------------------------------------------

    def _groups(self, lane: int, scope: int) -> list[ReachedGroup]:
        block = lane // self.size
        return groups_of(block, block // self.machine.shape.cluster, scope)

    def fence(self, lanes: Lanes, scope: int, acquires: bool, releases: bool) -> None:
        for lane in lanes.tolist() if acquires else ():
            seen = self.seen.get(lane)
            if seen is not None:
                for level in range(scope + 1):
                    self._acquire(lane, seen[level])
                    seen[level] = Released()
        for w, local in self.by_warp(lanes) if releases else ():
            segment = self.segments[w]
            for lane in local.tolist():
                before = self.fenced.setdefault(w * WARP + lane, [None, None, None])
                before[: scope + 1] = [segment] * (scope + 1)
            self.segments[w] = clocks.moved_on(segment, local)

    def fence_proxy(self, lanes: Lanes) -> None:
        """Make what generic accesses have done visible to the async proxy (TMA, wgmma), for whoever learns of it."""
        for w, local in self.by_warp(lanes):
            self.segments[w] = self.segments[w].fence(local, self.token())

    def read_strong(self, lane: int, at: Location, acquires: bool, scope: int) -> None:
        there = self.released.get(at)
        if there is not None:
            self._taken(lane, there.last, acquires, scope)

    def write_strong(self, lane: int, at: Location, releases: bool, scope: int, atomic: bool) -> None:
        known = self._handed(lane, releases, scope)
        if releases:
            self._moved_on(lane)
        if known:
            self.released.setdefault(at, HandedOn())
        if at in self.released:
            self.released[at].write(lane, known, store=not atomic)

    # Rule (PTX ISA, "Release Patterns"): F; W releases what stands before F, to whom the scopes of F and W both reach.
    #   handed(W, g) = what its thread knew  at W if W releases,  at its last fence F with scope(F) >= level(g) if not;
    #   g of {block, cluster, all} up to scope(W)
    def _handed(self, lane: int, releases: bool, scope: int) -> ReleasedTo:
        """Return what a write of a thread hands on, for each group that may acquire it."""
        groups, local = self._groups(lane, scope), np.array([lane % WARP])
        if releases:
            return dict.fromkeys(groups, clocks.released(self.of(lane), local, self.size))
        fenced = self.fenced.get(lane, (None, None, None))
        known = {g: clocks.released(at, local, self.size) for g, at in zip(groups, fenced) if at is not None}
        if lane in self.made_fenced:
            add(known, dict.fromkeys(groups[:2], Released({}, self.made_fenced[lane])))
        return known

    # Rule (PTX ISA, "Acquire Patterns"): R; F acquires what R has read, as far as the scopes of R and F both reach.
    #   taken(R) = { handed(W, g) | R reads from W, the thread is in g, level(g) <= scope(R) },
    #   at R if R acquires, at the next fence F with scope(F) >= level(g) if not
    def _taken(self, lane: int, known: ReleasedTo, acquires: bool, scope: int) -> None:
        """A thread reads what was handed on."""
        groups = self._groups(lane, scope)
        if acquires:
            for one in known_to(known, groups):
                self._acquire(lane, one)
            return
        for level, group in enumerate(groups):
            if group in known:
                seen = self.seen.setdefault(lane, [Released(), Released(), Released()])
                seen[level] = both(seen[level], known[group])

    def _moved_on(self, lane: int) -> None:
        w = lane // WARP
        self.segments[w] = clocks.moved_on(self.segments[w], np.array([lane % WARP]))

    def _acquire(self, lane: int, known: Released) -> None:
        if known.blocks or known.done:
            w = lane // WARP
            self.segments[w] = clocks.acquired(self.segments[w], np.array([lane % WARP]), known, self.size)


def fence_of(one: Instruction) -> tuple[int, bool, bool] | None:
    """Describe a fence that orders memory: its scope, whether it acquires, whether it releases; None for the others."""
    words = one.parts
    if words[0] == "membar" and words[1] in SCOPES:
        return SCOPES[words[1]], True, True
    if words[0] == "fence" and not {"proxy", "mbarrier_init"} & set(words):
        return scope_of(words), "release" not in words, "acquire" not in words
    return None
