"""Copies in the background, as one warp's threads have them in flight.

Input: copies, commits and waits as they happen.  Output: memory, changed as early or as late as the waits allow;
entries of the race log, one where a copy is issued and one where a wait covers it.  Invariant: what a wait covers has
arrived when it returns; nothing else is promised. Groups are each thread's own, so everything is kept by lane.
Non-goals: deciding what is a race (races.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snap.machine.lanes import Site
from snap.machine.races import READ, WRITE
from snap.machine.storage import View

if TYPE_CHECKING:
    from snap.machine.warp_lanes import WarpLanes

_UNCOMMITTED = -1
_HABITS = (0.0, 0.0, 0.3, 1.0)  # how likely a copy is to arrive early


@dataclass(slots=True, eq=False)
class Flight:
    """One `async_copy` of a warp.  By lane that took part: where to and from (the first scalar of each), whether the
    source is read at all (else zeros come), its group, whether it has arrived, whether a wait has covered it; `held`:
    what was read at issue, None where the source is read on arrival.
    """

    target: View
    source: View
    to: np.ndarray
    origin: np.ndarray
    valid: np.ndarray
    lanes: np.ndarray
    sites: tuple[Site, Site]
    group: np.ndarray
    arrived: np.ndarray
    covered: np.ndarray
    held: list[np.ndarray] | None

    @property
    def open(self) -> bool:
        return not self.covered.all()

    def read(self) -> list[np.ndarray]:
        brought = []
        for k in range(self.source.width):
            bits = np.zeros(len(self.origin), self.source.flat.dtype)
            bits[self.valid] = self.source.flat[self.origin[self.valid] + k]
            brought.append(bits)
        return brought

    def arrive(self, chosen: np.ndarray) -> None:
        chosen = chosen & ~self.arrived
        if not chosen.any():
            return
        for k, bits in enumerate(self.held or self.read()):
            self.target.put_bits(self.to[chosen] + k, bits[chosen])
        self.arrived |= chosen


class Copies:
    """What one warp has in flight."""

    def __init__(self, warp: WarpLanes):
        self.warp = warp
        self.flights: list[Flight] = []
        self.committed = np.zeros(warp.shape[1], np.int64)  # groups, by lane
        dice = warp.launch.dice
        self.at_issue, self.later, self.holds = (float(dice.choice(_HABITS)) for _ in range(3))

    def issue(
        self, target: tuple[View, tuple, object], source: tuple[View, tuple, object], m, sites: tuple[Site, Site], valid
    ) -> None:
        """`target`, `source`: view, index and dimensions of the element; `valid`: where the source is read, None for
        everywhere.
        """
        active = self.warp.active(m)[0]
        lanes = np.flatnonzero(active)
        read = active if valid is None else active & self.warp.full(valid)[0]
        to, origin = (
            self.warp.full(view.cells(view.resolve(index, dims, mask[None, :], site)))[0][lanes].astype(np.int64)
            for (view, index, dims), mask, site in zip((target, source), (active, read), sites)
        )
        none = np.zeros(len(lanes), np.bool_)
        group = np.full(len(lanes), _UNCOMMITTED)
        flight = Flight(target[0], source[0], to, origin, read[lanes], lanes, sites, group, none, none.copy(), None)
        self._log(flight, np.ones(len(lanes), np.bool_), lands=False)
        dice = self.warp.launch.dice
        if dice.random() < self.holds:
            flight.held = flight.read()
        flight.arrive(dice.random(len(lanes)) < self.at_issue)
        self.flights.append(flight)
        self.drift()

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
        for flight in self.flights:
            old = (flight.group != _UNCOMMITTED) & (self.committed[flight.lanes] - flight.group > younger)
            covered = active[flight.lanes] & old & ~flight.covered
            if covered.any():
                flight.arrive(covered)
                flight.covered |= covered
                self._log(flight, covered, lands=True)
        self.flights = [flight for flight in self.flights if flight.open]

    def drift(self) -> None:
        """A moment at which something may arrive."""
        if self.flights and self.later:
            dice = self.warp.launch.dice
            flight = self.flights[int(dice.integers(len(self.flights)))]
            flight.arrive(dice.random(len(flight.lanes)) < self.later * dice.random())

    def _log(self, flight: Flight, chosen: np.ndarray, lands: bool) -> None:
        sides = (
            (flight.target, flight.to, chosen, WRITE, flight.sites[0]),
            (flight.source, flight.origin, chosen & flight.valid, READ, flight.sites[1]),
        )
        for view, cells, mine, kind, site in sides:
            if mine.any():
                self.warp.log(view, cells[mine], flight.lanes[mine], view.width, kind, site, flight, lands)
