"""How many blocks a kernel may be launched with.

Input:      a kernel
Output:     `most_blocks`
Invariant:  with no more blocks than that, every number of a unit that the kernel asks for (`id()`, `count()`) fits its
            type: launches check it (runtime/validate.py), and proofs count on it (prove/start.py)
Non-goals:  what the kernel computes from such numbers
"""

from __future__ import annotations

from snap.ir import nodes as ir
from snap.ir.hardware import GRID_BLOCKS
from snap.ir.synced import AnyFunction
from snap.ir.types import Level
from snap.ir.walk import callees, expressions, statements

MOST_BLOCKS = GRID_BLOCKS  # of blocks; of threads, too: `int` holds no more


def most_blocks(kernel: AnyFunction) -> int:
    """A kernel that numbers the threads of the whole grid has fewer than 2^31 of them."""
    if any(_numbers_threads(f) for f in callees(kernel)):
        blocks = kernel.place.known(Level.BLOCK) if kernel.place.held(Level.CLUSTER) is not None else 1
        return MOST_BLOCKS // (kernel.place.known(Level.THREAD) * blocks) * blocks
    return MOST_BLOCKS


def _numbers_threads(function: AnyFunction) -> bool:
    return any(
        isinstance(e, (ir.UnitId, ir.UnitCount))
        and e.target.level is Level.THREAD
        and any(held.open or level is Level.GRID for level, held in e.place.levels)
        for s in statements(function.body)
        for e in expressions(s)
    )
