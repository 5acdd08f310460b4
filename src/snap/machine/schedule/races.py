"""Data races, found after the fact from a log of accesses.

Input: accesses as they happen, each with the segment of its warp (clocks.py). Output: `Race` records, one for each pair
of places and object. Invariant: exact: a pair is reported iff two threads touch one element, one of them writes, they
are not both atomic, and nothing orders them. Elements are bytes that any view of the object tells apart, so shared
memory that another object reuses counts. An asynchronous copy stands in the log twice: where it is issued, and
where its thread's wait covers it. Each counts as an access by that thread there, and whatever comes between the two, by
whichever thread, races with the copy. Where it arrives at an mbarrier instead, its end has a token. A box or a product
of tiles stands there once, with a token: it comes after what its issuer knew, and before whoever knows the token. It
also sees memory another way than threads do, so what a thread wrote, or read where it will write, must have been fenced
by that thread before. Non-goals: stopping a run at the race.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snap.machine.errors import Race, RaceAccess, RaceReason, SideKind
from snap.machine.lanes.lanes import FaultSite, LogKind
from snap.machine.schedule.clocks import Segment, ordered, visible
from snap.machine.schedule.spoken import Promises, Spoken

if TYPE_CHECKING:
    from snap.machine.flight.copies import Flight

READ, WRITE, ATOMIC, ATOMIC_READ = LogKind
_SIDES = {READ: SideKind.READ, WRITE: SideKind.WRITE, ATOMIC: SideKind.ATOMIC, ATOMIC_READ: SideKind.ATOMIC}
_CONFLICTS = {
    READ: (ATOMIC,),
    WRITE: (READ, ATOMIC, ATOMIC_READ),
    ATOMIC: (READ,),
    ATOMIC_READ: (),
}  # besides plain writes, with which all do
_FLUSH = 1 << 19  # accesses kept before they are looked at
_MOST_RACES = 100  # races reported


@dataclass(slots=True, eq=False)
class LoggedAccess:
    """One warp's access: byte addresses and lanes, side by side.  copy: the copy that is issued here or, where `lands`,
    covered by a wait; token: of what is issued here and ends asynchronously; verb: what it does there; pitch: of a
    cluster's memory, the bytes of one block; own_token: one of this access alone, which a fence may release without
    the rest of what its thread did (`fence.mbarrier_init`); spoken: of an atomic, where in the text (spoken.py).
    """

    address: np.ndarray
    lane: np.ndarray
    size: int
    kind: LogKind
    segment: Segment
    site: FaultSite
    name: str
    base: int
    element: int
    copy: Flight | None = None
    lands: bool = False
    token: int = 0
    verb: SideKind | None = None
    pitch: int = 0
    own_token: int = 0
    spoken: Spoken | None = None

    @property
    def departs(self) -> bool:
        return self.copy is not None and not self.lands

    @property
    def by_unit(self) -> bool:
        """Boxes and products see memory another way than threads do; the copies of threads do not."""
        return self.token != 0 and self.copy is None


Access = tuple[LoggedAccess, int]  # and the lane


class RaceLog:
    def __init__(self, forgets: bool = True, observes: bool = False):
        """forgets: what a block's barrier has ordered in its shared memory cannot race later; not where other blocks
        reach into it.  observes: an atomic access comes after those to its element that it has seen, and so does all
        that comes after it (PTX ISA, "Causality order"); Snap promises this of an acquire alone.
        """
        self.forgets, self.observes = forgets, observes
        self.promises = Promises()
        self.entries: dict[object, list[LoggedAccess]] = {}
        self.logged = 0  # addresses in them
        self.limit = _FLUSH
        self.races: dict[tuple, Race] = {}

    def add(self, where: object, entry: LoggedAccess) -> None:
        """`where`: the memory, such that addresses in it can be compared."""
        self.entries.setdefault(where, []).append(entry)
        self.logged += len(entry.address)

    @property
    def full(self) -> bool:
        return self.logged > self.limit

    def look(self, phases: dict[int, int] | None = None) -> None:
        """Look for races; with `phases` (the oldest phase that a warp of each block is in) what may still race with
        later accesses is kept.
        """
        self.logged = 0
        for where, entries in self.entries.items():
            if entries and len(self.races) < _MOST_RACES:
                self._look_at(entries)
                for a, i, b, j, address in self.promises.broken(entries, _after):
                    self._report(a, i, b, j, address, reason=RaceReason.GROUP)
            forgets = self.forgets and isinstance(where, tuple)
            kept = (
                []
                if phases is None
                else [
                    e
                    for e in entries
                    if not forgets
                    or e.segment.phase >= phases[e.segment.block]
                    or (e.departs and e.copy is not None and e.copy.open)
                    or e.token
                ]
            )
            self.entries[where] = kept
            self.logged += sum(len(e.address) for e in kept)
        self.limit = max(_FLUSH, 2 * self.logged)

    def _look_at(self, entries: list[LoggedAccess]) -> None:
        for part in _apart(entries) if any(e.token for e in entries) else (entries,):
            self._look_at_part(part)

    def _look_at_part(self, entries: list[LoggedAccess]) -> None:
        grain = min(e.size for e in entries)
        repeats = [e.size // grain for e in entries]
        cell = np.concatenate(
            [(e.address[:, None] + np.arange(r) * grain).ravel() // grain for e, r in zip(entries, repeats)]
        )
        lane = np.concatenate([np.repeat(e.lane, r) for e, r in zip(entries, repeats)])
        lengths = [len(e.address) * r for e, r in zip(entries, repeats)]
        which = np.repeat(np.arange(len(entries)), lengths)
        kind = np.array([e.kind for e in entries])[which]
        block = np.array([e.segment.block for e in entries])[which]
        phase = np.array([e.segment.phase for e in entries])[which]
        epoch = np.array([e.segment.grid_epoch for e in entries])[which]
        thread = np.concatenate([np.repeat(e.segment.threads[e.lane], r) for e, r in zip(entries, repeats)])
        if any(e.departs for e in entries):
            self._in_flight(entries, which, lane, kind, cell, grain)
        if any(e.token for e in entries):
            background = self._in_background(entries, which, lane, cell, grain)
            if background.all():
                return
            which, lane, kind, cell, block, phase, epoch, thread = (
                x[~background] for x in (which, lane, kind, cell, block, phase, epoch, thread)
            )
        self._candidates(entries, which, lane, kind, (cell, block, phase), thread, cell, grain)
        if block.min() != block.max():
            self._candidates(entries, which, lane, kind, (cell, epoch), block, cell, grain)

    def _in_background(self, entries, which, lane, cell, grain) -> np.ndarray:
        """Elements that boxes or products touch, whatever the phase; returns which accesses those are.  Elements with
        one history count once.
        """
        touched = np.unique(cell[np.array([e.token != 0 for e in entries])[which]])
        chosen = np.isin(cell, touched)
        at = np.flatnonzero(chosen)
        at = at[np.lexsort((which[at], cell[at]))]
        starts = np.flatnonzero(np.append(True, cell[at][1:] != cell[at][:-1]))
        mark = which[at].astype(np.uint64) * np.uint64(64) + lane[at].astype(np.uint64) + np.uint64(1)
        for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9):
            mark = (mark ^ (mark >> np.uint64(29))) * np.uint64(factor)
        _, first = np.unique(np.add.reduceat(mark, starts), return_index=True)
        ends = np.append(starts[1:], len(at))
        for g in np.sort(first):
            members = at[starts[g] : ends[g]]
            self._closely(entries, which[members], lane[members], int(cell[members[0]]) * grain)
            if len(self.races) >= _MOST_RACES:
                break
        return chosen

    def _in_flight(self, entries, which, lane, kind, cell, grain) -> None:
        """Elements that something touches between a copy's issue and its end.

        What copies to an element is followed by its own end or by nothing; what copies from one may meet other reads.
        """
        order = np.lexsort((lane, which, cell))
        which, lane, kind, cell = which[order], lane[order], kind[order], cell[order]
        departs = np.array([e.departs for e in entries])[which]
        copy = np.array([id(e.copy) for e in entries])[which]
        same = cell[1:] == cell[:-1]
        ends = (copy[1:] == copy[:-1]) & (lane[1:] == lane[:-1]) & ~departs[1:]
        starts = np.flatnonzero(np.append(True, ~same))
        met = np.append(departs[:-1] & (kind[:-1] == WRITE) & same & ~ends, False)
        written = np.logical_or.reduceat((kind == WRITE) | (kind == ATOMIC), starts) & np.logical_or.reduceat(
            departs & (kind == READ), starts
        )
        for g in np.flatnonzero(np.logical_or.reduceat(met, starts) | written):
            stop = starts[g + 1] if g + 1 < len(starts) else len(cell)
            self._fly(entries, which[starts[g] : stop], lane[starts[g] : stop], int(cell[starts[g]]) * grain)
            if len(self.races) >= _MOST_RACES:
                return

    def _fly(self, entries: list[LoggedAccess], which: np.ndarray, lane: np.ndarray, address: int) -> None:
        """Accesses to one element in the order they happened, up to the first that meets a copy in flight."""
        flying: dict[tuple[int, int], Access] = {}
        for at, k in dict.fromkeys(zip(which.tolist(), lane.tolist())):
            e = entries[at]
            if e.lands:
                flying.pop((id(e.copy), k), None)
                continue
            for other, j in flying.values():
                if other.kind == WRITE or e.kind in (WRITE, ATOMIC):
                    self._report(other, j, e, k, address, in_flight=True)
                    return
            if e.departs:
                flying[id(e.copy), k] = (e, k)

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
        mixed = np.logical_or.reduceat(sorted_kind == ATOMIC, starts) & np.logical_or.reduceat(
            sorted_kind == READ, starts
        )
        ends = np.append(starts[1:], len(order))
        for g in np.flatnonzero(several & (writes | mixed)):
            members = order[starts[g] : ends[g]]
            self._closely(entries, which[members], lane[members], int(cell[members[0]]) * grain)
            if len(self.races) >= _MOST_RACES:
                return

    def _closely(self, entries: list[LoggedAccess], which: np.ndarray, lane: np.ndarray, address: int) -> None:
        """Accesses to one element in the order they happened, up to the first race.

        An access that is ordered after the last plain write is ordered after all that this write was ordered after, so
        only the last write, and each thread's last access of every other kind since then, need be remembered.
        """
        write: Access | None = None
        since: dict[int, dict[tuple[int, int, int], Access]] = {READ: {}, ATOMIC: {}, ATOMIC_READ: {}}
        atomics: list[Access] = []
        for at, k in dict.fromkeys(zip(which.tolist(), lane.tolist())):
            e = entries[at]
            thread = (e.segment.block, int(e.segment.threads[k]), e.token)
            before = [] if write is None else [write]
            for kind in _CONFLICTS[e.kind]:
                before += since[kind].values()
            for other, j in before:
                if not _after(other, j, e, k) and not (self.observes and _observed(other, j, atomics, e, k)):
                    self._report(other, j, e, k, address)
                    return
                if e.by_unit and not other.by_unit and not visible(other.segment, j, e.segment, k):
                    self._report(other, j, e, k, address, reason=RaceReason.PROXY)
                    return
            if self.observes and e.kind in (ATOMIC, ATOMIC_READ):
                atomics.append((e, k))
            if e.kind == WRITE:
                write, since = (e, k), {kind: {} for kind in since}
            else:
                since[e.kind][thread] = (e, k)

    def _report(
        self,
        a: LoggedAccess,
        lane_a: int,
        b: LoggedAccess,
        lane_b: int,
        address: int,
        in_flight: bool = False,
        reason: RaceReason = RaceReason.NOTHING_ORDERS,
    ) -> None:
        key = (b.name, a.site.span, b.site.span, a.kind, b.kind)
        if key not in self.races:
            if not reason and not in_flight and _one_thread_knows(a, b):
                reason = RaceReason.ONE_THREAD
            self.races[key] = Race(b.name, element_of(b, address), side(a, lane_a), side(b, lane_b), in_flight, reason)


def _after(a: LoggedAccess, lane_a: int, b: LoggedAccess, lane_b: int) -> bool:
    """Test whether b, logged later, comes after a. Asynchronous work is not over because its thread has gone on."""
    if a.token:
        return a.token == b.token or b.segment.knows(a.token, lane_b)
    return ordered(a.segment, lane_a, b.segment, lane_b) or bool(a.own_token and b.segment.knows(a.own_token, lane_b))


def _observed(a: LoggedAccess, lane_a: int, atomics: list[Access], b: LoggedAccess, lane_b: int) -> bool:
    """Test whether an atomic access that came after a, and so has seen it, comes before b; a is an atomic itself."""
    if a.kind != ATOMIC:
        return False
    for z, lane in reversed(atomics):
        if z is a and lane == lane_a:
            return False
        if _after(z, lane, b, lane_b):
            return True
    return False


def _one_thread_knows(a: LoggedAccess, b: LoggedAccess) -> bool:
    """Test whether what some thread of one warp did comes before what some thread of the other did: one has released,
    and one has acquired.
    """
    first, second = a.segment, b.segment
    if a.token or b.token or first.block == second.block and first.threads[0] == second.threads[0]:
        return False
    return any(ordered(first, i, second, j) for j in range(len(second.threads)) for i in range(len(first.threads)))


def _apart(entries: list[LoggedAccess]) -> list[list[LoggedAccess]]:
    """Entries in the order they came, by stretches of memory that do not overlap: each may be looked at as finely as it
    needs.
    """
    low = np.array([e.address.min() if len(e.address) else 0 for e in entries])
    high = np.array([e.address.max() + e.size if len(e.address) else 0 for e in entries])
    order = np.argsort(low, kind="stable")
    reach = np.maximum.accumulate(high[order])
    stretch = np.empty(len(entries), np.intp)
    stretch[order] = np.cumsum(np.append(0, low[order][1:] >= reach[:-1]))
    parts: list[list[LoggedAccess]] = [[] for _ in range(int(stretch.max()) + 1)]
    for e, k in zip(entries, stretch.tolist()):
        if len(e.address):
            parts[k].append(e)
    return [part for part in parts if part]


def element_of(e: LoggedAccess, address: int) -> int:
    return ((address % e.pitch if e.pitch else address) - e.base) // e.element


def side(e: LoggedAccess, lane: int) -> RaceAccess:
    copied = SideKind.COPY_TO if e.kind == WRITE else SideKind.COPY_FROM
    kind = e.verb or (_SIDES[e.kind] if e.copy is None else copied)
    return RaceAccess(kind, e.site.span, e.segment.block, int(e.segment.threads[lane]))
