"""Let each thread of a statement go its own way, where threads that go together come to a standstill.

Input: a statement that waits for atomics in a loop.  Output: a generator that runs each thread's part of it.  On a GPU,
threads of a warp are scheduled independently: one that has a lock goes on while the others ask for it.  Lanes in
lockstep would wait for those first. So where lockstep does not get on, the arrays are put back, and every statement in
which threads wait and do nothing together becomes a generator for each thread (for each part of a warp, where those act
together); those of a warp go on one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.strides import NUMBERS, GroupShape
from snap.machine.lanes.lanes import FaultSite


class Kept:
    """Hold what the arrays of a launch contained before it; nothing where the launch will not begin again."""

    def __init__(self, function: synced.AnyFunction, args: list, wanted: bool):
        written = (
            a for p, a in zip(function.params, args) if wanted and isinstance(p, ir.MemParam) and not p.handle.const
        )
        self.arrays = [(np.asarray(a), np.array(a)) for a in written]

    def restore(self) -> None:
        for array, before in self.arrays:
            array[...] = before


class Thread:
    """The way of one thread, or of a part of a warp, through a statement, and the loop in which it last went round for
    nothing.
    """

    def __init__(self, steps: Generator):
        self.steps = steps
        self.stuck_at = -1
        self.last_site: FaultSite | None = None


def apart(lanes, statement: Callable, m, shape: GroupShape) -> Generator:
    """Run a statement for each active thread, or part of the warp of that shape; whenever the warp goes on, every one
    of them goes on a while.  The warp goes round for nothing when all of its threads do.
    """
    launch, part, active = lanes.launch, shape.number(lanes.thread, NUMBERS), lanes.active(m)
    threads = [Thread(statement((part == k) & active)) for k in np.unique(part[active]).tolist()]
    while threads:
        for thread in launch.rng.sample(threads, len(threads)):
            lanes.fuel, lanes.stuck_at, lanes.last_site = launch.fuel(), thread.stuck_at, thread.last_site
            if next(thread.steps, _OVER) is _OVER:
                threads.remove(thread)
            thread.stuck_at, thread.last_site = lanes.stuck_at, lanes.last_site
        lanes.stuck_at = min((thread.stuck_at for thread in threads), default=-1)
        lanes.waiting_at = {thread.last_site for thread in threads if thread.last_site is not None}
        yield


_OVER = object()
