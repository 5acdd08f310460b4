"""Asynchronous copies, as one warp's threads have them in flight.

Input: copies, commits, waits and arrivals at mbarriers as they happen. Output: memory, changed as early or as late as
the waits allow; entries of the race log, one where a copy is issued and one where a wait covers it, or where it arrives
at an mbarrier. Invariant: what a wait covers has arrived when it returns, and what an mbarrier's phase counts when that
is complete; nothing else is promised. Groups are each thread's own, so everything is kept by lane. Non-goals: deciding
what is a race (races.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from snap._compiler.ir import synced
from snap._compiler.ir.types import Element
from snap.machine.errors import SideKind
from snap.machine.lanes.lanes import FaultSite
from snap.machine.lanes.storage import StorageView
from snap.machine.schedule.clocks import Released
from snap.machine.schedule.races import READ, WRITE

if TYPE_CHECKING:
    from snap.machine.flight.mbarriers import Slot
    from snap.machine.schedule.warp_lanes import WarpLanes

_UNCOMMITTED = -1
_HABITS = (0.0, 0.0, 0.3, 1.0)  # how likely a copy is to arrive early


@dataclass(slots=True, eq=False)
class Flight:
    """One `async_copy` of a warp.  By lane that took part: where to and from (the first scalar of each), how many
    scalars of the source are read (zeros come for the others), its group, whether it has arrived, whether a wait or an
    arrival at an mbarrier has covered it; `held`: what was read at issue, None where the source is read on arrival;
    `tokens`: known to who knows of such arrivals.
    """

    target: StorageView
    source: StorageView
    to: np.ndarray
    origin: np.ndarray
    read: np.ndarray
    lanes: np.ndarray
    sites: tuple[FaultSite, FaultSite]
    group: np.ndarray
    arrived: np.ndarray
    covered: np.ndarray
    held: list[np.ndarray] | None
    tokens: int = 0

    @property
    def open(self) -> bool:
        return not self.covered.all()

    def brought(self) -> list[np.ndarray]:
        """Convert bits from the source's scalar type to the target's."""
        flat, to = self.source.flat, self.target.flat
        bits = np.zeros((len(self.origin), self.target.width * to.itemsize // flat.itemsize), flat.dtype)
        for k in range(bits.shape[1]):
            some = self.read > k
            bits[some, k] = flat[self.origin[some] + k]
        return list(bits.view(to.dtype).T)

    def arrive(self, chosen: np.ndarray) -> None:
        chosen = chosen & ~self.arrived
        if not chosen.any():
            return
        for k, bits in enumerate(self.held or self.brought()):
            self.target.put_bits(self.to[chosen] + k, bits[chosen])
        self.arrived |= chosen


@dataclass(slots=True, eq=False)
class Landing:
    """An arrival at an mbarrier, by each of some threads of a warp, that comes when all they had copied has."""

    copies: Copies
    slot: Slot
    flights: list[Flight]
    active: np.ndarray
    token: int
    before: int  # tokens of what the threads had copied and waited for
    site: FaultSite
    over: bool = False

    verb = SideKind.COPY_TO
    comes = True  # by itself, whoever waits

    @property
    def block(self) -> int:
        return self.copies.warp.number

    @property
    def view(self) -> StorageView:
        return self.flights[0].target

    def go_on(self) -> bool:
        """All has come; returns whether that is so."""
        if not self.over:
            self.over = True
            tokens = self.token | self.before
            for flight in self.flights:
                self.copies.cover(flight, self.active[flight.lanes] & ~flight.covered, self.token)
                tokens |= flight.tokens
            warp, lanes = self.copies.warp, np.flatnonzero(self.active)
            self.slot.arrive(Released(done=tokens), 0, warp, int(lanes[0]), self.site, len(lanes))
        return True


class Copies:
    """Hold the copies that one warp has in flight. landings: arrivals of copies that have not come."""

    def __init__(self, warp: WarpLanes):
        self.warp = warp
        self.flights: list[Flight] = []
        self.landings: list[Landing] = []
        self.waited = [0] * warp.shape[1]  # tokens of copies that a wait has covered, by lane: later arrivals tell them
        self.committed = np.zeros(warp.shape[1], np.int64)  # groups, by lane
        dice = warp.launch.dice
        self.at_issue, self.later, self.holds = (float(dice.choice(_HABITS)) for _ in range(3))

    def issue(
        self,
        target: tuple[StorageView, tuple, object],
        source: tuple[StorageView, tuple, object],
        m,
        sites: tuple[FaultSite, FaultSite],
        valid,
        first: tuple[Element, Any] | None,
    ) -> None:
        """`target`, `source`: view, index and dimensions of the element; `valid`: where the source is read, None for
        everywhere; `first`: as which type it is seen then, and how many elements of it are read, None for all.
        """
        active = self.warp.active(m)[0]
        lanes = np.flatnonzero(active)
        read = active if valid is None else active & self.warp.full(valid)[0]
        to = self._cells(target, active, sites[0])[lanes]
        seen, count = source[0], read[lanes] * source[0].width
        if first is None:
            origin = self._cells(source, read, sites[1])[lanes]
        else:
            seen, start = source[0].first(*source[1:], read[None, :], *first, sites[1])
            origin = self.warp.full(seen.cells(start))[0][lanes]
            count = read[lanes] * self.warp.full(first[1])[0][lanes] * seen.width
        none = np.zeros(len(lanes), np.bool_)
        group = np.full(len(lanes), _UNCOMMITTED)
        flight = Flight(target[0], seen, to, origin, count, lanes, sites, group, none, none.copy(), None)
        self._log(flight, np.ones(len(lanes), np.bool_), lands=False)
        dice = self.warp.launch.dice
        if dice.random() < self.holds:
            flight.held = flight.brought()
        flight.arrive(dice.random(len(lanes)) < self.at_issue)
        self.flights.append(flight)
        self.drift()

    def _cells(self, element: tuple[StorageView, tuple, object], mask: np.ndarray, site: FaultSite) -> np.ndarray:
        view, index, dims = element
        return self.warp.full(view.cells(view.resolve(index, dims, mask[None, :], site)))[0].astype(np.int64)

    def commit(self, m) -> None:
        active = self.warp.active(m)[0]
        for flight in self.flights:
            mine = active[flight.lanes] & (flight.group == _UNCOMMITTED)
            flight.group[mine] = self.committed[flight.lanes[mine]]
        self.committed += active
        self.drift()

    def wait(self, younger: int, m) -> None:
        """Each thread waits until at most so many of its groups, the youngest, are in flight."""
        active = self.warp.active(m)[0]
        for flight in list(self.flights):
            old = (flight.group != _UNCOMMITTED) & (self.committed[flight.lanes] - flight.group > younger)
            covered = active[flight.lanes] & old
            if covered.any():
                for landing in self.landings:
                    if any(flight is one for one in landing.flights):
                        landing.go_on()
                if flight.tokens:
                    self.warp.segment = self.warp.segment.told(flight.lanes[covered], flight.tokens)
                self._waited(flight, covered & ~flight.covered)
        self._forget()

    def _waited(self, flight: Flight, chosen: np.ndarray) -> None:
        """A wait has covered these.  An arrival that follows is one of all copies so far, of these as well."""
        token = 0
        if self.warp.launch.copies_arrive and chosen.any():
            token = self.warp.launch.token()
            lanes = flight.lanes[chosen]
            for lane in lanes.tolist():
                self.waited[lane] |= token
            self.warp.segment = self.warp.segment.told(lanes, token)
        self.cover(flight, chosen, token)

    def arrive(self, barrier: synced.MBarrier, slot, m, site: FaultSite) -> None:
        """Each thread arrives when all that it has copied so far has come; it does not wait for that."""
        schedule, active = self.warp.launch, self.warp.active(m)[0]
        numbers = np.broadcast_to(slot, self.warp.shape)[0]
        for number in np.unique(numbers[active]).tolist():
            lanes = active & (numbers == number)
            one = schedule.slot(barrier, self.warp.number, number, site)
            flights = [flight for flight in self.flights if lanes[flight.lanes].any()]
            before = reduce(or_, (self.waited[lane] for lane in np.flatnonzero(lanes).tolist()), 0)
            landing = Landing(self, one, flights, lanes, schedule.token(), before, site)
            if flights:
                self.landings.append(landing)
                schedule.air.add(landing)
            else:
                landing.go_on()
        self._forget()

    def cover(self, flight: Flight, chosen: np.ndarray, token: int = 0) -> None:
        """These have come for certain; token: known to who knows that, else their own threads do."""
        if chosen.any():
            flight.arrive(chosen)
            flight.covered |= chosen
            flight.tokens |= token
            self._log(flight, chosen, lands=True, token=token)

    def _forget(self) -> None:
        self.landings = [landing for landing in self.landings if not landing.over]
        waited = [flight for landing in self.landings for flight in landing.flights]
        self.flights = [f for f in self.flights if f.open or any(f is one for one in waited)]

    def drift(self) -> None:
        """A moment at which something may arrive."""
        if self.flights and self.later:
            dice = self.warp.launch.dice
            flight = self.flights[int(dice.integers(len(self.flights)))]
            flight.arrive(dice.random(len(flight.lanes)) < self.later * dice.random())

    def _log(self, flight: Flight, chosen: np.ndarray, lands: bool, token: int = 0) -> None:
        sides = [(flight.target, flight.to, chosen, flight.target.width, WRITE, flight.sites[0])]
        for many in np.unique(flight.read[flight.read > 0]).tolist():
            mine = chosen & (flight.read == many)
            sides.append((flight.source, flight.origin, mine, many, READ, flight.sites[1]))
        for view, cells, mine, many, kind, site in sides:
            if mine.any():
                self.warp.log(view, cells[mine], flight.lanes[mine], many, kind, site, flight, lands, token)
