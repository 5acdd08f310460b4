"""A chosen barrier, while it is decided who arrives at it, who waits, where, and with which number."""

from __future__ import annotations

from dataclasses import dataclass

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import BLOCK1, Privilege
from snap._compiler.sync.barriers.cover import Mark
from snap._compiler.sync.barriers.outline import Spot
from snap._compiler.sync.conflicts.tokens import Edge, GapKey

WAITING = (PointKind.BLOCK, PointKind.NAMED, PointKind.CLUSTER, PointKind.GRID)  # kinds at which more than a warp waits


@dataclass(slots=True, eq=False)
class Chosen:
    """A mark while it is decided what becomes of it.  `alone`: the edges that nothing else orders, once it is taken
    apart.
    """

    key: GapKey
    gap: int
    mark: Mark
    spot: Spot | None
    waits_for_copies: bool
    alone: list[Edge] | None = None
    coming: frozenset[int] = frozenset()
    waiting: frozenset[int] = frozenset()
    arrive: Spot | None = None
    wait: Spot | None = None
    number: int = 0

    def make_whole(self) -> None:
        self.alone, self.coming, self.waiting, self.arrive, self.wait = None, frozenset(), frozenset(), None, None

    @property
    def whole(self) -> bool:
        return self.alone is None

    @property
    def group(self) -> Privilege:
        return BLOCK1 if self.mark.kind == PointKind.BLOCK else self.mark.participants

    @property
    def arriving(self) -> frozenset[int]:
        return self.coming - self.waiting

    def spots(self) -> list[Spot]:
        return [s for s in ((self.spot,) if self.whole else (self.arrive, self.wait)) if s is not None]

    def orders(self, edge: Edge) -> bool:
        """In parts, it orders uses that those who made the parts thought of: they come before the arrival, and after
        the wait.
        """
        if not edge.candidates >> self.gap & 1 or not self.mark.participants.at_least(edge.participants):
            return False
        if self.whole:
            return True
        return any(e.first.site == edge.first.site for e in self.alone) and any(
            e.second.site == edge.second.site for e in self.alone
        )

    @property
    def number_needed(self) -> bool:
        """Whether it is a named barrier: of a part of the block, or of two parts."""
        return (
            self.mark.kind == PointKind.NAMED
            if self.whole
            else self.mark.kind in (PointKind.BLOCK, PointKind.NAMED) and len(self.coming | self.waiting) > 1
        )

    def settles(self, other: Chosen) -> bool:
        """Whether threads that only arrive at `other` cannot come to it again before its waiters have been there, once
        they have passed this one: those here wait for the others.
        """
        if self.whole:
            return self.mark.kind in WAITING and self.group.at_least(other.group)
        return (
            self.group == other.group and other.arriving <= self.waiting and other.waiting <= self.coming | self.waiting
        )


def settled(by: Chosen | ir.Collective, other: Chosen) -> bool:
    return by.settles(other) if isinstance(by, Chosen) else by.requires.at_least(other.group)
