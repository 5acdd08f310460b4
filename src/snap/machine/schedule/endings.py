"""The end of blocks: their shared memory is gone then, whoever still uses it.

Input: a launch that has ended, of the CPU machine or the PTX machine, with its log.  Output: races of reason 'exit'.
Invariant: a use of a block's shared memory asynchronously, or by another block, is fine iff some thread of that block
knew at its end that it was over.  The rule is docs/language.md's ("The end of a block").  Non-goals: global memory, and
what threads of the block do themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from snap.machine.errors import Race, RaceAccess, RaceReason, SideKind
from snap.machine.schedule import clocks
from snap.machine.schedule.clocks import Released, Segment
from snap.machine.schedule.races import LoggedAccess, RaceLog, element_of, side
from snap.record import record

if TYPE_CHECKING:
    from snap.machine.schedule.adversarial import Schedule


@record
class LateUse:
    """A use of `block`'s shared memory that ends by itself.  token: known to who knows that it is over; 0 where nobody
    has waited for it.
    """

    token: int
    name: str
    access: RaceAccess
    block: int


class LastWords:
    """Hold what the threads of a block knew at its end."""

    def __init__(self, segments: list[Segment]):
        self.known: Released = clocks.known_of_others(segments)
        self.cluster_epoch = max((s.cluster_epoch for s in segments), default=0)
        self.grid_epoch = max((s.grid_epoch for s in segments), default=0)

    def include(self, a: Segment, lane: int) -> bool:
        """Test whether what a thread of another block did was over."""
        if a.grid_epoch < self.grid_epoch or a.cluster_epoch < self.cluster_epoch:
            return True
        phase, clock = self.known.blocks.get(a.block, (-1, None))
        return a.phase < phase or (a.phase == phase and bool(clock[a.threads[lane]] >= a.clock[lane]))


class Endings:
    """last: the warps' segments at the end of each block; gone: the end of a block, as one side of a race."""

    def __init__(self, log: RaceLog, last: dict[int, list[Segment]], gone: Callable[[int], RaceAccess]):
        self.log, self.gone = log, gone
        self.races: dict[tuple, Race] = {}
        self.last = {block: LastWords(segments) for block, segments in last.items()}

    def in_flight(self, uses: Iterable[LateUse]) -> None:
        for use in uses:
            if not self.last[use.block].known.done & use.token:
                self.report(use.name, 0, use.access, use.block)

    def by_others(self, per_cluster: int) -> None:
        """Accesses that threads of other blocks of the cluster have made themselves."""
        for where, entries in self.log.entries.items() if per_cluster > 1 else ():
            if isinstance(where, tuple):
                for e in entries:
                    if not e.token:
                        self._by_others(where[1] * per_cluster, e)

    def _by_others(self, first: int, e: LoggedAccess) -> None:
        owner = first + e.address // e.pitch
        for at in np.flatnonzero(owner != e.segment.block).tolist():
            block, lane = int(owner[at]), int(e.lane[at])
            if not self.last[block].include(e.segment, lane):
                self.report(e.name, element_of(e, int(e.address[at])), side(e, lane), block)
                return

    def tell(self) -> None:
        """Look for all races of the log; those of the end come last."""
        self.log.look()
        for key, race in self.races.items():
            self.log.races.setdefault(key, race)

    def report(self, name: str, index: int, first: RaceAccess, block: int) -> None:
        key = (name, first.span, first.kind, SideKind.EXIT)
        self.races.setdefault(key, Race(name, index, first, self.gone(block), reason=RaceReason.EXIT))


def look_at_the_end(launch: Schedule) -> None:
    """Look for all races of a launch on the CPU machine, those of its blocks' ends among them."""
    endings = Endings(launch.log, launch.ended, lambda block: RaceAccess(SideKind.EXIT, launch.kernel.span, block, 0))
    endings.in_flight(_in_flight(launch))
    for block, name, site, segment, lane in launch.remote:
        if not endings.last[block].include(segment, lane):
            arrival = RaceAccess(SideKind.ATOMIC, site.span, segment.block, int(segment.threads[lane]))
            endings.report(name, 0, arrival, block)
    endings.by_others(launch.blocks_per_cluster)
    endings.tell()


def _in_flight(launch: Schedule) -> Iterator[LateUse]:
    if "air" in launch.__dict__:
        for token, name, site, verb, block in launch.air.issued:
            yield LateUse(token, name, RaceAccess(verb, site.span, block, 0), block)
    for copies in launch.copying:
        block = copies.warp.number
        for flight in copies.flights:
            if flight.open:  # copies that arrive at an mbarrier have done so by now, and are among those above
                thread = int(copies.warp.thread[0, flight.lanes[~flight.covered][0]])
                access = RaceAccess(SideKind.COPY_TO, flight.sites[0].span, block, thread)
                yield LateUse(0, flight.target.name, access, block)
    for (block, _), products in launch.products.items():
        for product in products.all:
            thread = int(next(part for part in product.parts if part is not None).warp.thread[0, 0])
            access = RaceAccess(SideKind.MULTIPLY, product.spec.site.span, block, thread)
            yield LateUse(product.token, product.spec.b.site.name, access, block)
