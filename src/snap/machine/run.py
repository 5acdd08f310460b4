"""Run a kernel: in lockstep, and where that does not get on, each thread on its own.

Input: a kernel, typed and synchronized, and its arguments.  Output: the arrays, written in place.  Non-goals: how
threads go on (reference.py, schedule/adversarial.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import orders
from snap.diag.span import Span
from snap.machine.errors import FaultKind, MachineError
from snap.machine.lanes.printing import Postponed, say
from snap.machine.reference import run_reference
from snap.machine.schedule.adversarial import run_adversarial, run_one_by_one
from snap.machine.schedule.standstill import Kept
from snap.machine.source.program import program_for


def run_program(
    typed: ir.Function,
    synced: Callable[[], synced.Function],
    args: list,
    blocks: int,
    only: Sequence[int] | None = None,
) -> None:
    """Run a kernel: `typed`, all threads in lockstep. Where its threads wait for each other and lockstep makes no
    progress, run `synced`, each thread on its own, and blocks that need not be resident together one after the other.
    Lockstep cannot tell whether a release and an acquire order two units that meet in an element: where the kernel has
    some, run `synced` with clocks, and report a fault only if something races: how the two units met in lockstep, if it
    is they that race.  only: the blocks that run, whole clusters; None for all.
    """
    waits, spoken = bool(program_for(typed, stepwise=False).waiting), orders(typed)
    before, printed = Kept(typed, args, waits or spoken), Postponed(waits or spoken, say)
    try:
        return run_reference(typed, args, blocks, printed.say, only)
    except MachineError as error:
        stands = error.kind is FaultKind.NO_PROGRESS and waits and only is None
        again = stands or error.kind is FaultKind.OVERLAP and spoken
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
        run_adversarial(synced(), args, blocks, 0, only=only)
    except MachineError as error:
        if error.kind in (FaultKind.RACE, FaultKind.OVERLAP) and _places(error) & _places(met):
            raise met from None
        raise


def _places(error: MachineError) -> set[Span]:
    return {error.span, *(label.span for label in error.diagnostic.secondary)}
