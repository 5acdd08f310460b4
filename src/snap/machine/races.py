"""Data races, found after the fact from a log of accesses.

Input: accesses as they happen, each with the segment of its warp (clocks.py).  Output: `Race` records, one for each pair of places and
object.  Invariant: exact: a pair is reported iff two threads touch one element, one of them writes, they are not both atomic, and nothing
orders them.  Elements are bytes that any view of the object tells apart, so shared memory that another object reuses counts.  Non-goals:
stopping a run at the race.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snap.machine.clocks import Segment, ordered
from snap.machine.errors import Race, RaceAccess
from snap.machine.lanes import Site

READ, WRITE, ATOMIC, ATOMIC_READ = range(4)
KINDS = {"read": READ, "write": WRITE, "atomic": ATOMIC, "atomic read": ATOMIC_READ}
_WORDS = {READ: "read", WRITE: "write", ATOMIC: "atomic", ATOMIC_READ: "atomic"}
_CONFLICTS = {READ: (ATOMIC,), WRITE: (READ, ATOMIC, ATOMIC_READ), ATOMIC: (READ,), ATOMIC_READ: ()}  # besides plain writes, with which all do
_FLUSH = 1 << 19  # accesses kept before they are looked at
_MOST = 100  # races reported


@dataclass(slots=True, eq=False)
class Entry:
    """One warp's access: byte addresses and lanes, side by side."""

    address: np.ndarray
    lane: np.ndarray
    size: int
    kind: int
    segment: Segment
    site: Site
    name: str
    base: int
    element: int


Access = tuple[Entry, int]  # and the lane


class RaceLog:
    def __init__(self):
        self.entries: dict[object, list[Entry]] = {}
        self.pending = 0
        self.limit = _FLUSH
        self.found: dict[tuple, Race] = {}

    def add(self, where: object, entry: Entry) -> None:
        """`where`: the memory, such that addresses in it can be compared."""
        self.entries.setdefault(where, []).append(entry)
        self.pending += len(entry.address)

    @property
    def full(self) -> bool:
        return self.pending > self.limit

    def look(self, phases: dict[int, int] | None = None) -> None:
        """Look for races; with `phases` (the oldest phase that a warp of each block is in) what may still race with later accesses is kept."""
        self.pending = 0
        for where, entries in self.entries.items():
            if entries and len(self.found) < _MOST:
                self._look_at(entries)
            kept = [] if phases is None else [e for e in entries if not isinstance(where, tuple) or e.segment.phase >= phases[e.segment.block]]
            self.entries[where] = kept
            self.pending += sum(len(e.address) for e in kept)
        self.limit = max(_FLUSH, 2 * self.pending)

    def _look_at(self, entries: list[Entry]) -> None:
        grain = min(min(e.size for e in entries), min(e.element for e in entries))
        repeats = [e.size // grain for e in entries]
        cell = np.concatenate([(e.address[:, None] + np.arange(r) * grain).ravel() // grain for e, r in zip(entries, repeats)])
        lane = np.concatenate([np.repeat(e.lane, r) for e, r in zip(entries, repeats)])
        lengths = [len(e.address) * r for e, r in zip(entries, repeats)]
        which = np.repeat(np.arange(len(entries)), lengths)
        kind = np.array([e.kind for e in entries])[which]
        block = np.array([e.segment.block for e in entries])[which]
        phase = np.array([e.segment.phase for e in entries])[which]
        epoch = np.array([e.segment.grid_epoch for e in entries])[which]
        thread = np.concatenate([np.repeat(e.segment.threads[e.lane], r) for e, r in zip(entries, repeats)])
        self._candidates(entries, which, lane, kind, (cell, block, phase), thread, cell, grain)
        if block.min() != block.max():
            self._candidates(entries, which, lane, kind, (cell, epoch), block, cell, grain)

    def _candidates(self, entries, which, lane, kind, keys, unit, cell, grain) -> None:
        """Groups of accesses with equal keys, by different units, that conflict: each is looked at closely."""
        order = np.lexsort((which, *keys))
        change = np.zeros(len(order), np.bool_)
        change[0] = True
        for key in keys:
            change[1:] |= key[order][1:] != key[order][:-1]
        starts = np.flatnonzero(change)
        sorted_kind, sorted_unit = kind[order], unit[order]
        several = np.minimum.reduceat(sorted_unit, starts) != np.maximum.reduceat(sorted_unit, starts)
        writes = np.logical_or.reduceat(sorted_kind == WRITE, starts)
        mixed = np.logical_or.reduceat(sorted_kind == ATOMIC, starts) & np.logical_or.reduceat(sorted_kind == READ, starts)
        ends = np.append(starts[1:], len(order))
        for g in np.flatnonzero(several & (writes | mixed)):
            members = order[starts[g]:ends[g]]
            self._closely(entries, which[members], lane[members], int(cell[members[0]]) * grain)
            if len(self.found) >= _MOST:
                return

    def _closely(self, entries: list[Entry], which: np.ndarray, lane: np.ndarray, address: int) -> None:
        """Accesses to one element in the order they happened, up to the first race.

        An access that is ordered after the last plain write is ordered after all that this write was ordered after, so only the last write, and
        each thread's last access of every other kind since then, need be remembered.
        """
        write: Access | None = None
        since: dict[int, dict[tuple[int, int], Access]] = {READ: {}, ATOMIC: {}, ATOMIC_READ: {}}
        for at, k in dict.fromkeys(zip(which.tolist(), lane.tolist())):
            e = entries[at]
            thread = (e.segment.block, int(e.segment.threads[k]))
            before = [] if write is None else [write]
            for kind in _CONFLICTS[e.kind]:
                before += since[kind].values()
            for other, j in before:
                if (other.segment.block, int(other.segment.threads[j])) != thread and not ordered(other.segment, j, e.segment, k):
                    self._report(other, j, e, k, address)
                    return
            if e.kind == WRITE:
                write, since = (e, k), {kind: {} for kind in since}
            else:
                since[e.kind][thread] = (e, k)

    def _report(self, a: Entry, lane_a: int, b: Entry, lane_b: int, address: int) -> None:
        key = (b.name, a.site.span, b.site.span, a.kind, b.kind)
        if key not in self.found:
            self.found[key] = Race(b.name, (address - b.base) // b.element, _side(a, lane_a), _side(b, lane_b))


def _side(e: Entry, lane: int) -> RaceAccess:
    return RaceAccess(_WORDS[e.kind], e.site.span, e.segment.block, int(e.segment.threads[lane]))
