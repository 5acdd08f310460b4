"""Bound how many blocks a kernel may be launched with.

Input:      a kernel, and whether its `where=` says how many blocks it may have at most
Output:     `most_blocks`
Invariant:  with no more blocks than that, every number of a unit that the kernel asks for (`id()`, `count()`) fits its
            type, and so does what is computed from a block's and a thread's (`64 * b + t`), unless `where=` bounds the
            blocks by itself: launches check it (host/arguments/validate.py), and proofs count on it (walk/evaluate.py)
Non-goals:  what else the kernel computes from such numbers
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import GRID_BLOCKS
from snap._compiler.ir.synced import AnyFunction
from snap._compiler.ir.types import Level
from snap._compiler.ir.walk import callees, expressions, statements

MOST_BLOCKS = GRID_BLOCKS  # of blocks; of threads, too: `int` holds no more


def most_blocks(kernel: AnyFunction, bounded: bool = False) -> int:
    """Fewer than 2^31 threads; where `where=` bounds the blocks, and nobody numbers the threads of the whole grid, as
    many blocks as the hardware takes.
    """
    if bounded and not numbers_threads(kernel):
        return MOST_BLOCKS
    blocks = kernel.place.known(Level.BLOCK) if kernel.place.held(Level.CLUSTER) is not None else 1
    return MOST_BLOCKS // (kernel.place.known(Level.THREAD) * blocks) * blocks


def numbers_threads(kernel: AnyFunction) -> bool:
    return any(_numbers_threads(f) for f in callees(kernel))


def _numbers_threads(function: AnyFunction) -> bool:
    return any(
        isinstance(e, (ir.UnitId, ir.UnitCount))
        and e.target.level is Level.THREAD
        and any(held.open or level is Level.GRID for level, held in e.place.levels)
        for s in statements(function.body)
        for e in expressions(s)
    )
