"""Measure a launch: run it on the CPU machine, and count.

Input: a specialized kernel, its arguments, the number of blocks.  Output: `Measured`.  Invariant: the arrays are left
alone, since copies are run; what a launch refuses is refused here in the same words.  Non-goals: time; a GPU's caches.
"""

from __future__ import annotations

from typing import Any

from snap._compiler.ir.types import Level
from snap._compiler.ir.walk import callees, statements
from snap.api import SnapFunction
from snap.cost.measured import Measured, SourceFunction, sums
from snap.cost.metrics import BadMetric, table
from snap.diag.span import Span
from snap.host.arguments.validate import check_grid, check_seconds
from snap.host.errors import LaunchError
from snap.host.launch import cpu_args, launcher
from snap.machine import watching
from snap.machine.counting import run_counting
from snap.machine.errors import FaultKind, MachineError
from snap.machine.schedule.spinning import waiting_loops
from snap.targets import Fill


def measure(k: SnapFunction, *args: object, **options: Any) -> Measured:
    """Call `k.measure(...)`."""
    if not isinstance(k, SnapFunction):
        raise TypeError("snap.measure takes a kernel and its arguments")
    return k.measure(*args, **options)


def measured(
    k: SnapFunction,
    args: tuple[object, ...],
    keywords: dict[str, object],
    blocks: object,
    metrics: object,
    seconds: float | None,
    progress: bool | None,
) -> Measured:
    """Count what a launch executes; blocks: None for what the decorator says."""
    k._kernel_only("are measured")
    compiled, rest = k._split(args, keywords)
    if blocks is None:
        blocks = k._blocks(args, keywords)
    calls = launcher(compiled)
    signature, typed = calls.signature, compiled.typed
    try:
        rows = table(metrics)
    except BadMetric as wrong:
        raise LaunchError(signature.kernel, f"metrics=: {wrong}") from None
    check_seconds(signature, seconds)
    if type(blocks) is Fill:
        blocks = calls.filled(blocks, tuple(rest), "cpu")
    number, extents = check_grid(signature, blocks)
    bound = calls.bound(tuple(rest), number, extents=extents)
    if isinstance(bound.device, int):
        raise LaunchError(signature.kernel, "a kernel is measured on the CPU machine; pass arrays in the CPU's memory")
    copies = [arg.copy() if hasattr(arg, "copy") else arg for arg in cpu_args(bound)]
    with watching.watched(f"measuring `{signature.kernel}`", seconds, progress) as watch:
        try:
            found = sums(rows, run_counting(compiled.in_one_text, copies, number))
        except watching.OutOfTime:
            raise MachineError(
                FaultKind.TIME_LIMIT,
                f"time ran out: {watch.told()}",
                typed.span,
                help="allow more `seconds=`, or measure fewer blocks or smaller arrays",
            ) from None
        except MachineError as error:
            if error.kind is FaultKind.NO_PROGRESS and error.span in _waiting(compiled.in_one_text):
                why = "waits for other threads, and how often it runs is a matter of time"
                raise LaunchError(signature.kernel, f"the loop in line {error.span.line} {why}") from None
            raise error.with_traceback(None) from None  # the machine's own frames say nothing to a user
    threads = typed.place[Level.THREAD].count or 1
    return Measured(signature.kernel, number, threads, found.total, found.by_line(), _functions(typed))


def _waiting(kernel: Any) -> set[Span]:
    """Find the loops that wait for other threads."""
    numbers = waiting_loops(kernel)
    return {s.span for f in callees(kernel) for s in statements(f.body) if s.number in numbers}


def _functions(kernel: Any) -> tuple[SourceFunction, ...]:
    """Name the kernel and what it calls, each once, with the lines of its text."""
    found: dict[tuple[str, int], SourceFunction] = {}
    for f in callees(kernel):
        place = f.span.filename, f.span.line
        last = max((s.span.end_line for s in statements(f.body) if s.span.filename == place[0]), default=place[1])
        found.setdefault(place, SourceFunction(f.name, *place, max(last, place[1])))
    return tuple(found.values())
