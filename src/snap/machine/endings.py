"""The end of blocks: their shared memory is gone then, whoever still uses it.

Input: a launch that has ended, with its log.  Output: races of reason 'exit'.  Invariant: a use of a block's shared
memory asynchronously, or by another block, is fine iff some thread of that block knew at its end that it was over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.machine import clocks
from snap.machine.clocks import Released, Segment
from snap.machine.errors import Race, RaceAccess, RaceReason, SideKind
from snap.machine.races import LoggedAccess, element_of, side

if TYPE_CHECKING:
    from snap.machine.adversarial import Schedule


class LastWords:
    """What the threads of a block knew at its end."""

    def __init__(self, segments: list[Segment]):
        self.known: Released = clocks.known_of_others(segments)
        self.cluster_epoch = max((s.cluster_epoch for s in segments), default=0)
        self.grid_epoch = max((s.grid_epoch for s in segments), default=0)

    def include(self, a: Segment, lane: int) -> bool:
        """Whether what a thread of another block did was over."""
        if a.grid_epoch < self.grid_epoch or a.cluster_epoch < self.cluster_epoch:
            return True
        phase, clock = self.known.blocks.get(a.block, (-1, None))
        return a.phase < phase or (a.phase == phase and bool(clock[a.threads[lane]] >= a.clock[lane]))


def ended_too_early(launch: Schedule) -> None:
    last = {block: LastWords(segments) for block, segments in launch.ended.items()}
    if "air" in launch.__dict__:
        for token, name, site, verb, block in launch.air.issued:
            if not last[block].known.done & token:
                _report(launch, name, 0, RaceAccess(verb, site.span, block, 0), block)
    for (block, _), products in launch.products.items():
        for product in products.all:
            if not last[block].known.done & product.token:
                thread = int(next(part for part in product.parts if part is not None).warp.thread[0, 0])
                _report(
                    launch,
                    product.spec.b.site.name,
                    0,
                    RaceAccess(SideKind.MULTIPLY, product.spec.site.span, block, thread),
                    block,
                )
    for block, name, site, segment, lane in launch.remote:
        if not last[block].include(segment, lane):
            _report(
                launch,
                name,
                0,
                RaceAccess(SideKind.ATOMIC, site.span, segment.block, int(segment.threads[lane])),
                block,
            )
    if launch.blocks_per_cluster > 1:
        for where, entries in launch.log.entries.items():
            if isinstance(where, tuple):
                for e in entries:
                    if not e.token:
                        _check_entry(launch, last, where[1], e)


def _check_entry(launch: Schedule, last: dict[int, LastWords], cluster: int, e: LoggedAccess) -> None:
    """Accesses of another block's memory."""
    owner = cluster * launch.blocks_per_cluster + e.address // e.pitch
    for at in np.flatnonzero(owner != e.segment.block).tolist():
        block, lane = int(owner[at]), int(e.lane[at])
        if not last[block].include(e.segment, lane):
            _report(launch, e.name, element_of(e, int(e.address[at])), side(e, lane), block)
            return


def _report(launch: Schedule, name: str, index: int, first: RaceAccess, block: int) -> None:
    key = (name, first.span, first.kind, SideKind.EXIT)
    launch.log.races.setdefault(
        key, Race(name, index, first, RaceAccess(SideKind.EXIT, launch.kernel.span, block, 0), reason=RaceReason.EXIT)
    )
