"""Happens-before, by clocks and tokens.

A *segment* is what a warp's threads do between two points where they learn of others.  Barriers of a whole block,
cluster or grid begin a new phase or epoch, and phases and epochs order everything; knowledge of single threads is kept
only where smaller groups synchronize or an acquire meets a release.  What ends asynchronously, and every fence, has
a *token*, a bit of its own: to know it is to come after it, and it is handed on with all else that a thread knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from snap.machine.schedule.spoken import SpokenBy

Foreign = dict[int, tuple[int, np.ndarray]]  # block -> its phase and, by thread, the clocks known of that phase


@dataclass(slots=True, eq=False)
class Released:
    """Hold what a release hands on: knowledge of blocks, including the releaser's own, and of tokens.  spoken: the
    releases themselves, by where each was done (spoken.py).
    """

    blocks: Foreign = field(default_factory=dict)
    done: int = 0
    spoken: dict[tuple, SpokenBy] = field(default_factory=dict)

    def add(self, other: Released) -> None:
        self.blocks = merged(self.blocks, other.blocks) if self.blocks else other.blocks
        self.done |= other.done
        self.spoken = {**self.spoken, **other.spoken} if other.spoken else self.spoken


@dataclass(slots=True, eq=False)
class Segment:
    """Hold the clocks of one warp. clock: each thread's own; known: (threads of the warp, threads of the block), clocks
    of others in this phase, None for nothing; foreign: what each thread knows of other blocks; done: the tokens that
    each thread knows; fences: how many of `fenced`, the warp's fences (token and lanes) in order, have been made.
    """

    block: int
    cluster: int
    threads: np.ndarray
    phase: int
    cluster_epoch: int
    grid_epoch: int
    clock: np.ndarray
    known: np.ndarray | None = None
    foreign: list[Foreign] | None = None
    done: tuple[int, ...] | None = None
    fences: int = 0
    fenced: list[tuple[int, np.ndarray]] = field(default_factory=list)

    @staticmethod
    def first(block: int, cluster: int, threads: np.ndarray) -> Segment:
        return Segment(block, cluster, threads, 0, 0, 0, np.ones(len(threads), np.int32))

    def whole(self, *, cluster: bool, grid: bool, known: Released) -> Segment:
        """After a barrier of at least the whole block, whose threads knew `known` of other blocks."""
        count = len(self.threads)
        spread = None if grid or not known.blocks else [known.blocks] * count
        done = (known.done,) * count if known.done else None
        return Segment(
            self.block,
            self.cluster,
            self.threads,
            self.phase + 1,
            self.cluster_epoch + cluster,
            self.grid_epoch + grid,
            np.ones(count, np.int32),
            None,
            spread,
            done,
            self.fences,
            self.fenced,
        )

    def knowledge(self, size: int) -> np.ndarray:
        """A copy of `known`, with each thread's own clock in it."""
        table = np.zeros((len(self.threads), size), np.int32) if self.known is None else self.known.copy()
        table[np.arange(len(self.threads)), self.threads] = self.clock
        return table

    def knows(self, token: int, lane: int) -> bool:
        return self.done is not None and bool(self.done[lane] & token)

    def next(
        self, lanes: np.ndarray, known: np.ndarray | None, foreign: list[Foreign] | None, done: tuple[int, ...] | None
    ) -> Segment:
        """`lanes` have learnt, or told, something: their clocks move on."""
        clock = self.clock.copy()
        clock[lanes] += 1
        return Segment(
            self.block,
            self.cluster,
            self.threads,
            self.phase,
            self.cluster_epoch,
            self.grid_epoch,
            clock,
            known,
            foreign,
            done,
            self.fences,
            self.fenced,
        )

    def told(self, lanes: np.ndarray, tokens: int) -> Segment:
        """`lanes` have learnt of tokens."""
        return self.next(lanes, self.known, self.foreign, _with_tokens(self, lanes, tokens))

    def fence(self, lanes: np.ndarray, token: int) -> Segment:
        """Make what `lanes` have written so far visible to whoever knows the token."""
        self.fenced.append((token, np.isin(np.arange(len(self.threads)), lanes)))
        after = self.told(lanes, token)
        after.fences += 1
        return after


def _with_tokens(segment: Segment, lanes: np.ndarray, tokens: int) -> tuple[int, ...] | None:
    if not tokens:
        return segment.done
    done = list(segment.done or (0,) * len(segment.threads))
    for lane in lanes.tolist():
        done[lane] |= tokens
    return tuple(done)


def merged(a: Foreign, b: Foreign) -> Foreign:
    out = dict(a)
    for block, (phase, clocks) in b.items():
        have = out.get(block)
        if have is None or have[0] < phase:
            out[block] = (phase, clocks)
        elif have[0] == phase and have[1] is not clocks:
            out[block] = (phase, np.maximum(have[1], clocks))
    return out


def known_of_others(segments: list[Segment]) -> Released:
    """Join what the threads know of other blocks, and of tokens."""
    out = Released()
    for segment in segments:
        for one in {id(f): f for f in segment.foreign or ()}.values():
            out.add(Released(one))
        for tokens in set(segment.done or ()):
            out.done |= tokens
    return out


def over(segments: list[Segment], size: int) -> Released:
    """Record that the phases of these blocks, which have met, are over, for whoever learns of it from one of them."""
    return Released({s.block: (s.phase + 1, np.zeros(size, np.int32)) for s in segments})


def joined(members: list[tuple[Segment, np.ndarray]], size: int) -> list[Segment]:
    """After a barrier of some threads of a block: (segment, lanes that take part) of each warp -> its next segment."""
    tables = [segment.knowledge(size) for segment, _ in members]
    row = np.max([table[lanes].max(axis=0) for table, (_, lanes) in zip(tables, members)], axis=0)
    known = Released()
    for segment, lanes in members:
        for lane in lanes if segment.foreign is not None or segment.done is not None else ():
            known.add(
                Released(segment.foreign[lane] if segment.foreign else {}, segment.done[lane] if segment.done else 0)
            )
    out = []
    for table, (segment, lanes) in zip(tables, members):
        table[lanes] = row
        spread = segment.foreign
        if known.blocks:
            spread = list(spread or [{}] * len(segment.threads))
            for lane in lanes:
                spread[lane] = known.blocks
        out.append(segment.next(lanes, table, spread, _with_tokens(segment, lanes, known.done)))
    return out


def released(segment: Segment, lanes: np.ndarray, size: int) -> Released:
    """Return what some threads know, for whoever acquires it."""
    row = np.zeros(size, np.int32) if segment.known is None else segment.known[lanes].max(axis=0)
    row[segment.threads[lanes]] = np.maximum(row[segment.threads[lanes]], segment.clock[lanes])
    out = Released({segment.block: (segment.phase, row)})
    for lane in lanes.tolist() if segment.foreign is not None or segment.done is not None else ():
        out.add(Released(segment.foreign[lane] if segment.foreign else {}, segment.done[lane] if segment.done else 0))
    return out


def moved_on(segment: Segment, lanes: np.ndarray) -> Segment:
    """After a release: what `lanes` do from here on was not handed on."""
    return segment.next(lanes, segment.known, segment.foreign, segment.done)


def acquired(segment: Segment, lanes: np.ndarray, known: Released, size: int) -> Segment:
    """Some threads learn what was released."""
    own, table = known.blocks.get(segment.block), segment.known
    if own is not None and own[0] == segment.phase:
        table = segment.knowledge(size)
        table[lanes] = np.maximum(table[lanes], own[1])
    foreign = segment.foreign
    others = {block: what for block, what in known.blocks.items() if block != segment.block}
    if others:
        foreign = list(foreign or [{}] * len(segment.threads))
        memo: dict[int, Foreign] = {}
        for lane in lanes.tolist():
            before = foreign[lane]
            if id(before) not in memo:
                memo[id(before)] = merged(before, others)
            foreign[lane] = memo[id(before)]
    return segment.next(lanes, table, foreign, _with_tokens(segment, lanes, known.done))


def ordered(a: Segment, lane_a: int, b: Segment, lane_b: int) -> bool:
    """Test whether what thread a did happens before what thread b did later."""
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


def visible(a: Segment, lane_a: int, b: Segment, lane_b: int) -> bool:
    """Test whether thread b knows of a fence that thread a has made since."""
    return any(lanes[lane_a] and b.knows(token, lane_b) for token, lanes in a.fenced[a.fences :])
