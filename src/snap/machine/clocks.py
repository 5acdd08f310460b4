"""Happens-before, by clocks.

A *segment* is what a warp's threads do between two points where they learn of others.  Barriers of a whole block, cluster or grid begin a new
phase or epoch, and phases and epochs order everything; knowledge of single threads is kept only where smaller groups synchronize or an acquire
meets a release.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Foreign = dict[int, tuple[int, np.ndarray]]  # block -> its phase and, by thread, the clocks known of that phase


@dataclass(slots=True, eq=False)
class Segment:
    """Of one warp.  clock: each thread's own; known: (threads of the warp, threads of the block), clocks of others in this phase, None for nothing;
    foreign: what each thread knows of other blocks."""

    block: int
    cluster: int
    threads: np.ndarray
    phase: int
    cluster_epoch: int
    grid_epoch: int
    clock: np.ndarray
    known: np.ndarray | None = None
    foreign: list[Foreign] | None = None

    @staticmethod
    def first(block: int, cluster: int, threads: np.ndarray) -> Segment:
        return Segment(block, cluster, threads, 0, 0, 0, np.ones(len(threads), np.int32))

    def whole(self, *, cluster: bool, grid: bool, foreign: Foreign | None) -> Segment:
        """After a barrier of at least the whole block."""
        spread = None if grid or not foreign else [foreign] * len(self.threads)
        return Segment(self.block, self.cluster, self.threads, self.phase + 1, self.cluster_epoch + cluster, self.grid_epoch + grid,
                       np.ones(len(self.threads), np.int32), None, spread)

    def knowledge(self, size: int) -> np.ndarray:
        """A copy of `known`, with each thread's own clock in it."""
        table = np.zeros((len(self.threads), size), np.int32) if self.known is None else self.known.copy()
        table[np.arange(len(self.threads)), self.threads] = self.clock
        return table

    def with_knowledge(self, table: np.ndarray, lanes: np.ndarray, foreign: list[Foreign] | None) -> Segment:
        """`lanes` have learnt `table`; their clocks move on."""
        clock = self.clock.copy()
        clock[lanes] += 1
        return Segment(self.block, self.cluster, self.threads, self.phase, self.cluster_epoch, self.grid_epoch, clock, table, foreign)


def merged(a: Foreign, b: Foreign) -> Foreign:
    out = dict(a)
    for block, (phase, clocks) in b.items():
        have = out.get(block)
        if have is None or have[0] < phase:
            out[block] = (phase, clocks)
        elif have[0] == phase:
            out[block] = (phase, np.maximum(have[1], clocks))
    return out


def all_foreign(segments: list[Segment]) -> Foreign:
    """What any of the threads knows of other blocks."""
    out: Foreign = {}
    for segment in segments:
        for one in {id(f): f for f in segment.foreign or ()}.values():
            out = merged(out, one)
    return out


def joined(members: list[tuple[Segment, np.ndarray]], size: int) -> list[Segment]:
    """After a barrier of some threads of a block: (segment, lanes that take part) of each warp -> its next segment."""
    tables = [segment.knowledge(size) for segment, _ in members]
    row = np.max([table[lanes].max(axis=0) for table, (_, lanes) in zip(tables, members)], axis=0)
    foreign: Foreign = {}
    for segment, lanes in members:
        for lane in lanes if segment.foreign is not None else ():
            foreign = merged(foreign, segment.foreign[lane])
    out = []
    for table, (segment, lanes) in zip(tables, members):
        table[lanes] = row
        spread = segment.foreign
        if foreign:
            spread = list(spread or [{}] * len(segment.threads))
            for lane in lanes:
                spread[lane] = foreign
        out.append(segment.with_knowledge(table, lanes, spread))
    return out


@dataclass(slots=True, eq=False)
class Published:
    """What a release left at a memory location: knowledge of blocks, the releaser's own included."""

    known: Foreign = field(default_factory=dict)


def released(segment: Segment, lane: int, size: int) -> Foreign:
    """What one thread knows, for whoever acquires it."""
    own = {segment.block: (segment.phase, segment.knowledge(size)[lane])}
    return merged(own, segment.foreign[lane]) if segment.foreign is not None else own


def acquired(segment: Segment, lane: int, known: Foreign, size: int) -> Segment:
    """One thread learns what was released."""
    table = segment.knowledge(size)
    own = known.get(segment.block)
    if own is not None and own[0] == segment.phase:
        table[lane] = np.maximum(table[lane], own[1])
    foreign = list(segment.foreign or [{}] * len(segment.threads))
    foreign[lane] = merged(foreign[lane], {block: what for block, what in known.items() if block != segment.block})
    return segment.with_knowledge(table, np.array([lane]), foreign)


def ordered(a: Segment, lane_a: int, b: Segment, lane_b: int) -> bool:
    """Whether what thread a did happens before what thread b did later."""
    if a.block == b.block:
        if a.threads[lane_a] == b.threads[lane_b] or a.phase < b.phase:
            return True
        return b.known is not None and bool(b.known[lane_b, a.threads[lane_a]] >= a.clock[lane_a])
    if a.grid_epoch < b.grid_epoch or (a.cluster == b.cluster and a.cluster_epoch < b.cluster_epoch):
        return True
    if b.foreign is None or a.block not in b.foreign[lane_b]:
        return False
    phase, clocks = b.foreign[lane_b][a.block]
    return a.phase < phase or (a.phase == phase and bool(clocks[a.threads[lane_a]] >= a.clock[lane_a]))
