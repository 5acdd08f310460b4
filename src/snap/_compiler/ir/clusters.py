"""The blocks of a cluster that hold copies of one value: all of them, or a part.

Input:      shared memory with copies, and how many blocks a cluster has
Output:     which blocks belong together, and which place a block has among them
Invariant:  every block is in one part, and all parts have the same size; of a cluster of rows x columns blocks,
            numbered row by row, parts with step 1 are its rows, and parts with the step of a row its columns
Non-goals:  what is loaded
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap.record import record


@record
class Part:
    """size: how many blocks hold one value; step: how far their ranks lie apart."""

    size: int
    step: int

    def place(self, rank: int) -> int:
        """Find which of the blocks of its part a block is."""
        return rank // self.step % self.size

    def blocks(self, rank: int) -> list[int]:
        """The ranks of the blocks of a block's part, its own among them."""
        first = rank - self.place(rank) * self.step
        return [first + k * self.step for k in range(self.size)]


def part_of(obj: ir.MemObject, blocks: int) -> Part:
    return Part(blocks, 1) if obj.part is None else Part(*obj.part)
