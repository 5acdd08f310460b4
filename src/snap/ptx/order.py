"""What happens before what, in a run of PTX.

Input: what threads execute.  Output: for each warp the segment it is in (machine/clocks.py): what its threads know of
others.  Rules (PTX ISA, "Memory Consistency Model"; what counts, and nothing else):

- program order of one thread;
- `bar.sync`, `bar.red`, `bar.arrive` to those that wait; `bar.warp.sync` between its members; not shuffles or votes;
- `barrier.cluster.arrive` to `.wait`, unless `.relaxed`;
- a release at a location to an acquire there that reads from it.  A release is a strong write (`st`, `atom`, `red` that
  is `.relaxed`, `.release`, `.acq_rel` or `.volatile`) that is `.release` or follows a fence (`fence`, `membar`) of its
  thread; an acquire a strong read that is `.acquire` or precedes one.  An atomic hands on what the writes before it
  released; another thread's store does not.  The scopes of both sides must reach each other;
- arrivals at an mbarrier, and the bytes that copies bring to it, to those who see that its phase is over;
- what is issued and ends asynchronously (`cp.async`, TMA, `wgmma`), to who waits for its group or its mbarrier.

Invariant: a segment is never changed, only replaced, so that whoever keeps one knows what was known then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from snap.machine import clocks
from snap.machine.clocks import Released, Segment

if TYPE_CHECKING:
    from snap.ptx.machine import Lanes, Machine
    from snap.ptx.program import Instruction
    from snap.ptx.transfers import Mbarrier
    from snap.ptx.watch import BarrierKey

WARP = 32
Group = tuple[int, int]  # a scope (0 block, 1 cluster, 2 all), and which one of these
SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "gl": 2, "sys": 2}
Location = tuple[str, int]  # space and byte


def scope_of(words: tuple[str, ...]) -> int:
    """What is not said is the GPU."""
    return next((SCOPES[w] for w in words if w in SCOPES), 2)


@dataclass(slots=True)
class _Released:
    """What was released at a location: by whom last, and for each group that may acquire it."""

    owner: int
    known: dict[Group, Released]


@dataclass(slots=True)
class _Gate:
    """An mbarrier: what the arrivals of the phase in progress brought, and all before."""

    barrier: Mbarrier
    phase: int = 0
    known: Released = field(default_factory=Released)
    complete: Released = field(default_factory=Released)


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
        self.released: dict[Location, _Released] = {}
        self.met: dict[tuple[int, int], list[tuple[Segment, np.ndarray, np.ndarray]]] = {}  # at barriers
        self.cluster: dict[tuple[int, int], Released] = {}  # by cluster and phase
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
            if waiting[come].all() and len(come) == self._alive(block):
                self._whole(block)
                continue
            known = Released()
            for segment, local, _ in arrivals:
                known.add(clocks.released(segment, local, self.size))
            for w, local in self.by_warp(np.sort(come[waiting[come]])):
                self.segments[w] = clocks.acquired(self.segments[w], local, known, self.size)

    def _alive(self, block: int) -> int:
        from snap.ptx.machine import GONE

        return int((self.machine.state[block * self.size : (block + 1) * self.size] != GONE).sum())

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

    def arrived_at_cluster(self, lanes: Lanes) -> None:
        for w, local in self.by_warp(lanes):
            segment = self.segments[w]
            known = self.cluster.setdefault(self._phase(w * WARP + int(local[0])), Released())
            known.add(clocks.released(segment, local, self.size))
            self.segments[w] = clocks.moved_on(segment, local)

    def cluster_passed(self, lanes: Lanes) -> None:
        for w, local in self.by_warp(lanes):
            known = self.cluster.get(self._phase(w * WARP + int(local[0])))
            if known is not None:
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
            gate.complete = _both(gate.complete, gate.known)
            gate.phase, gate.known = barrier.phase, Released()
        return gate

    def counted(self, key: BarrierKey, barrier: Mbarrier, lane: int | None, tokens: int) -> None:
        gate = self._gate(key, barrier)
        gate.known.done |= tokens
        if lane is not None:
            w, local = lane // WARP, np.array([lane % WARP])
            gate.known.add(clocks.released(self.segments[w], local, self.size))
            self.segments[w] = clocks.moved_on(self.segments[w], local)

    def passed(self, key: BarrierKey, barrier: Mbarrier, lane: int) -> None:
        self._acquire(lane, self._gate(key, barrier).complete)

    # ---- fences, releases, acquires ---------------------------------------------------------------------------------

    def _groups(self, lane: int, scope: int) -> list[Group]:
        block = lane // self.size
        return [(0, block), (1, block // self.machine.shape.cluster), (2, 0)][: scope + 1]

    def fence(self, lanes: Lanes, scope: int) -> None:
        for lane in lanes.tolist():
            seen = self.seen.get(lane)
            if seen is not None:
                for level in range(scope + 1):
                    self._acquire(lane, seen[level])
                    seen[level] = Released()
        for w, local in self.by_warp(lanes):
            segment = self.segments[w]
            for lane in local.tolist():
                before = self.fenced.setdefault(w * WARP + lane, [None, None, None])
                before[: scope + 1] = [segment] * (scope + 1)
            self.segments[w] = clocks.moved_on(segment, local)

    def fence_proxy(self, lanes: Lanes) -> None:
        """What generic accesses have done, the async proxy (TMA, wgmma) sees; for who learns of it."""
        for w, local in self.by_warp(lanes):
            self.segments[w] = self.segments[w].fence(local, self.token())

    def read_strong(self, lane: int, at: Location, acquires: bool, scope: int) -> None:
        there = self.released.get(at)
        if there is None:
            return
        for level, group in enumerate(self._groups(lane, scope)):
            known = there.known.get(group)
            if known is None:
                continue
            if acquires:
                self._acquire(lane, known)
            else:
                seen = self.seen.setdefault(lane, [Released(), Released(), Released()])
                seen[level] = _both(seen[level], known)

    def write_strong(self, lane: int, at: Location, releases: bool, scope: int, atomic: bool) -> None:
        there = self.released.get(at)
        keeps = there is not None and (atomic or there.owner == lane)
        known = dict(there.known) if keeps and there is not None else {}
        fenced = self.fenced.get(lane, (None, None, None))
        local = np.array([lane % WARP])
        for level, group in enumerate(self._groups(lane, scope)):
            segment = self.of(lane) if releases else fenced[level]
            if segment is not None:
                mine = clocks.released(segment, local, self.size)
                known[group] = _both(known[group], mine) if group in known else mine
        if releases:
            w = lane // WARP
            self.segments[w] = clocks.moved_on(self.segments[w], local)
        if known:
            self.released[at] = _Released(lane, known)
        else:
            self.released.pop(at, None)

    def _acquire(self, lane: int, known: Released) -> None:
        if known.blocks or known.done:
            w = lane // WARP
            self.segments[w] = clocks.acquired(self.segments[w], np.array([lane % WARP]), known, self.size)


def _both(a: Released, b: Released) -> Released:
    """A new one: what was handed on is never changed."""
    if not b.blocks and not b.done:
        return a
    out = Released(a.blocks, a.done)
    out.add(b)
    return out


def fence_of(one: Instruction) -> int | None:
    """The scope of a fence that orders memory, None for the others."""
    words = one.parts
    if words[0] == "membar" and words[1] in SCOPES:
        return SCOPES[words[1]]
    if words[0] == "fence" and not {"proxy", "mbarrier_init"} & set(words):
        return scope_of(words)
    return None
