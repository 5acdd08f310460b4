"""A chosen barrier, while it is decided who arrives at it, who waits, where, and with which number."""

from __future__ import annotations

from dataclasses import dataclass

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.halves import half_of
from snap._compiler.ir.operations import SyncHalf
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import BLOCK1, Privilege
from snap._compiler.sync.barriers.cover import Mark
from snap._compiler.sync.barriers.outline import Spot
from snap._compiler.sync.conflicts.tokens import Edge, GapKey

WAITING = (PointKind.BLOCK, PointKind.NAMED, PointKind.CLUSTER, PointKind.GRID)  # kinds at which more than a warp waits


@dataclass(slots=True)
class Parts:
    """A barrier at which not all of the group wait, or that is in two places.

    stood            where it was when it was whole
    alone            the edges that nothing else orders
    coming, waiting  the warps that take part before it, and that wait at it; none of a cluster's
    arrive, wait     where it is now; no arrival where all that come wait
    """

    stood: Spot
    alone: list[Edge]
    wait: Spot
    arrive: Spot | None
    coming: frozenset[int] = frozenset()
    waiting: frozenset[int] = frozenset()

    @property
    def arriving(self) -> frozenset[int]:
        """The warps that only arrive."""
        return self.coming - self.waiting

    @property
    def some(self) -> frozenset[int]:
        """All warps that take part."""
        return self.coming | self.waiting

    def order(self, edge: Edge) -> bool:
        """Tell whether they order a use by those who made the parts: it comes before the arrival, or after the wait."""
        first, second = edge.first.site, edge.second.site
        return any(e.first.site == first for e in self.alone) and any(e.second.site == second for e in self.alone)


@dataclass(slots=True, eq=False)
class Chosen:
    """A mark while it is decided what becomes of it; `parts` once it is taken apart."""

    key: GapKey
    gap: int
    mark: Mark
    spot: Spot | None
    waits_for_copies: bool
    parts: Parts | None = None
    number: int = 0

    @property
    def group(self) -> Privilege:
        return BLOCK1 if self.mark.kind == PointKind.BLOCK else self.mark.participants

    def spots(self) -> list[Spot]:
        spots = (self.spot,) if self.parts is None else (self.parts.arrive, self.parts.wait)
        return [s for s in spots if s is not None]

    def orders(self, edge: Edge) -> bool:
        if not edge.candidates >> self.gap & 1 or not self.mark.participants.at_least(edge.participants):
            return False
        return self.parts is None or self.parts.order(edge)

    @property
    def number_needed(self) -> bool:
        """Return whether it is a named barrier: of a part of the block, or of two parts."""
        return (
            self.mark.kind == PointKind.NAMED
            if self.parts is None
            else self.mark.kind in (PointKind.BLOCK, PointKind.NAMED) and len(self.parts.some) > 1
        )

    def settles(self, other: Chosen) -> bool:
        """Return whether threads that only arrive at `other` cannot come to it again before its waiters have been
        there, once they have passed this one: those here wait for the others.
        """
        mine, its = self.parts, other.parts
        if mine is None:
            return self.mark.kind in WAITING and self.group.at_least(other.group)
        apart = its is None or its.arriving <= mine.waiting and its.waiting <= mine.some
        return self.group == other.group and apart


def settled(by: Chosen | ir.Collective, other: Chosen) -> bool:
    if isinstance(by, Chosen):
        return by.settles(other)
    return half_of(by) is SyncHalf.BOTH and by.requires.at_least(other.group)
