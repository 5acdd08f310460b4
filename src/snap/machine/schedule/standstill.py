"""What a launch does where threads that go together come to a standstill: it begins again, and each thread goes its own
way.

Input: a kernel that waits for atomics in a loop.  Output: its arrays.  On a GPU, threads of a warp are scheduled
independently: one that has a lock goes on while the others ask for it.  Lanes in lockstep would wait for those first.
So where lockstep does not get on, the arrays are put back, and every statement in which threads wait and do nothing
together becomes a generator for each thread (for each part of a warp, where those act together); those of a warp go on
one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap.machine.errors import FaultKind, MachineError
from snap.machine.lanes.lanes import FaultSite
from snap.machine.lanes.printing import Postponed, say
from snap.machine.source.facts import orders


class Kept:
    """What the arrays of a launch held before it; nothing where the launch will not begin again."""

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


def apart(lanes, statement: Callable, m, n: int) -> Generator:
    """Run a statement for each active thread, or aligned part of n threads; whenever the warp goes on, every one of
    them goes on a while.  The warp goes round for nothing when all of its threads do.
    """
    launch, part, active = lanes.launch, lanes.thread // n, lanes.active(m)
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


def run_program(typed: ir.Function, synced: Callable[[], synced.Function], args: list, blocks: int) -> None:
    """What a kernel means: `typed`, all threads in lockstep; where its threads wait for each other and lockstep does
    not get on, `synced`, each thread on its own, and of blocks that need not be resident together one after the other.
    In lockstep nothing says whether a release and an acquire order two units that meet in an element: where the kernel
    has some, `synced` is run with clocks, and it is no fault if nothing races.
    """
    from snap import machine
    from snap.machine.schedule.adversarial import run_adversarial, run_one_by_one
    from snap.machine.source.program import program_for

    waits, spoken = bool(program_for(typed, stepwise=False).waiting), orders(typed)
    before, printed = Kept(typed, args, waits or spoken), Postponed(waits or spoken, say)
    try:
        return machine.run_reference(typed, args, blocks, printed.say)
    except MachineError as error:
        again = error.kind is FaultKind.NO_PROGRESS and waits or error.kind is FaultKind.OVERLAP and spoken
        if not again:
            raise
        printed.forget()
        met = error
    finally:
        printed.show()
    before.restore()
    if met.kind is FaultKind.NO_PROGRESS:
        return run_one_by_one(synced(), args, blocks)
    try:
        run_adversarial(synced(), args, blocks, 0)
    except MachineError as error:
        if error.kind in (FaultKind.RACE, FaultKind.OVERLAP):
            raise met from None
        raise
