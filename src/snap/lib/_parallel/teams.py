"""Teams: the threads of one block, or of the blocks of a cluster, which hand each other values through their shared
memory.

Input:      how many blocks a team has, how many threads a block
Output:     `team`: what code of a team requires.  `reduce`: a device function that combines a team's values
Invariant:  values are combined in the order of threads, warps and blocks, so floats repeat; no global memory is used,
            so none need be zeroed
Non-goals:  larger clusters than every GPU with clusters has
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.types import Scalar
from snap.lib._calls.arrays import Argument
from snap.lib._calls.operators import element, operator
from snap.lib.block import reduce as block_reduce


def most_blocks(given: Argument) -> int:
    """Return how many blocks a team may have on the array's device: clusters came with sm_90."""
    device = given.info.device
    if isinstance(device, str):
        return 8
    from snap.host.device.driver import driver

    return 8 if driver().device(device).arch >= 90 else 1


def team(blocks: int, threads: int) -> tuple:
    """List what a function requires that a team calls. The first is the team's own privilege."""
    return (block[1], thread[threads]) if blocks == 1 else (cluster[1], block[blocks], thread[threads])


@functools.cache
def reduce(type: Scalar, blocks: int, threads: int, op="add", identity=None):
    """f(v: T @ thread[1]) -> T @ thread[1], or at block[1] where a team is one block: all values of the team combined,
    in every thread.
    """
    T, B, held = element(type), blocks, team(blocks, threads)
    in_block, combine = block_reduce(T, op, identity), operator(op, type, identity).each
    if blocks == 1:
        return in_block

    @device(*held)
    def team_reduce(v: T @ thread[1]) -> T @ thread[1]:
        totals: shared(T[1], across=block)
        of_block: T @ block[1] = in_block(v)
        with each(block, totals), one(thread, totals):
            totals[0] = of_block
        total: T @ thread[1] = totals[0, 0]
        for k in unroll(range(1, B)):
            total = combine(total, totals[k, 0])
        return total

    return team_reduce
