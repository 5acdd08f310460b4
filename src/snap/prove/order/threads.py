"""The threads of a block, in units that no barrier divides.

Input: a kernel of the synchronized IR.  Output: a `BlockThreads`: how many threads and units there are, and sets of
them, as integers with a bit for each.  Invariant: a barrier, an arrival and a case of the kernel take whole units.
Non-goals: which threads are where.
"""

from __future__ import annotations

from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARPGROUP
from snap._compiler.ir.types import Level
from snap.prove.order.outline import units_of
from snap.prove.order.values import TooMuch


class BlockThreads:
    """count: threads of a block; unit: threads of a unit; units: of a block; sizes: of groups of threads that all
    variables are one value for, each dividing the next; cluster: blocks of a cluster; everyone: all threads.
    """

    def __init__(self, kernel: synced.Function, functions: list[synced.Function]):
        threads = kernel.place.held(Level.THREAD)
        if threads is None or threads.count is None:
            raise TooMuch("how many threads it has is not known")
        blocks = kernel.place.held(Level.BLOCK)
        self.count = threads.count
        self.everyone = (1 << self.count) - 1
        self.unit, self.sizes = units_of(functions, self.count)
        self.units = -(-self.count // self.unit)
        self.cluster = blocks.count or 1 if kernel.place.held(Level.CLUSTER) is not None and blocks else 1
        self.warpgroups = [self.units_of(((1 << WARPGROUP) - 1) << k) for k in range(0, self.count, WARPGROUP)]

    def units_of(self, threads: int, whole: bool = False) -> int:
        """Return the units that have one of these threads; `whole`: all of whose threads are among them."""
        full = (1 << self.unit) - 1
        found = 0
        for u in range(self.units):
            part = threads >> u * self.unit & full
            mine = full if (u + 1) * self.unit <= self.count else (1 << self.count - u * self.unit) - 1
            if part == mine if whole else part:
                found |= 1 << u
        return found
