"""A launch that a proof has found, run on the CPU machine.

Input:      a specialized kernel, the number of blocks, numbers by name: parameters, and `len(x)` of arrays; what
            arrays hold: a name, an index, a number; and where not all blocks run, which ones
Output:     what the machine saw that is wrong: its kind ("out of bounds", "overlap", "race"), a text, and places; None
            for nothing, for a launch that is refused, and for one that would take too long
Invariant:  it changes nothing outside; what is seen where only some blocks run, a launch may show before the others
            have begun
Non-goals:  what else is in memory: zeros
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from snap.diag.span import Span
from snap.host.arguments.arrays import BadArray
from snap.host.arguments.signature import Pointer, ValueArgument
from snap.host.arguments.validate import check_grid
from snap.host.errors import LaunchError
from snap.host.launch import cpu_args, distinct, launcher

# Of an array, of those that run, and of one run.  Of an array of zeros only what is touched takes memory.
MOST_BYTES, MOST_THREADS, SECONDS = 1 << 36, 1 << 14, 3.0
SCHEDULES = 2


Seen = tuple[str, str, tuple[Span, ...]]


def replay(
    compiled: Any,
    blocks: int,
    given: Mapping[str, int],
    data: Iterable[tuple[str, tuple[int, ...], int]],
    threads: int,
    only: Sequence[int] = (),
    seconds: float | None = None,
) -> Seen | None:
    """only: the blocks that run; () for all.  seconds: that are left for it; SECONDS are enough."""
    from snap.machine import MachineError

    calls, most = launcher(compiled), SECONDS if seconds is None else min(seconds / 2, SECONDS)
    if (len(only) or blocks) * threads > MOST_THREADS:
        return None
    try:
        grid, held = _grid(calls, blocks, given), tuple(data)
        args = _arguments(calls, given, held)
        if args is None:
            return None
        calls.start(tuple(args), grid, "cpu", seconds=most, only=only or None)
        found = _races(compiled, calls, lambda: _arguments(calls, given, held) or [], grid, most, only or None)
        return _told(found[0].error()) if found else None
    except MachineError as error:
        return _told(error)
    except (LaunchError, BadArray, ArithmeticError, ValueError, MemoryError):
        return None


def _races(
    compiled: Any, calls: Any, args: Callable[[], list[Any]], grid: Any, seconds: float, only: Sequence[int] | None
) -> list[Any]:
    """Look for races in a few schedules, each with arrays of its own."""
    from snap import machine
    from snap.machine import watching

    found: list[Any] = []
    number, extents = check_grid(calls.signature, grid)
    with watching.watched("a replay", seconds, False):
        try:
            for seed in range(SCHEDULES):
                bound = calls.bound(tuple(args()), number, extents=extents)
                machine.run_adversarial(compiled.synced, cpu_args(bound), number, seed, found, only)
        except watching.OutOfTime:
            pass  # what was seen until then counts
    return distinct(found)


def _grid(calls: Any, blocks: int, given: Mapping[str, int]) -> Any:
    """A kernel that asks for the shape of its grid is launched with as many extents."""
    axes = range(max(calls.signature.axes, default=-1) + 1)
    return tuple(given.get(f"grid[{axis}]", 0) for axis in axes) or blocks


def _told(error: Any) -> Seen:
    who = [f"{word} {n}" for word, n in (("block", error.block), ("thread", error.thread)) if n is not None]
    places = (error.span, *(label.span for label in error.diagnostic.secondary))
    return error.kind, error.met or f"{error.message}{' (' + ', '.join(who) + ')' if who else ''}", places


def _arguments(
    calls: Any, given: Mapping[str, int], data: Iterable[tuple[str, tuple[int, ...], int]]
) -> list[Any] | None:
    """Arrays of zeros but for the data, and the numbers; None where they would be too large."""
    import numpy as np

    from snap.machine.lanes.numbers import MEMORY

    signature = calls.signature
    params = signature.params[: len(signature.params) - len(signature.axes)]
    values = [given.get(p.name, 0) if isinstance(p, ValueArgument) else None for p in signature.params]
    args: list[Any] = []
    for k, p in enumerate(params):
        if isinstance(p, ValueArgument):
            args.append(_value(p, given.get(p.name, 0)))
            continue
        assert isinstance(p, Pointer)
        dims = signature.dims[k]
        length = given.get(f"len({p.name})", 0)
        own = (length * p.lanes,) if p.units == 1 else (length, p.units)
        shape = own if dims is None else tuple(dims(*values))
        if dims is not None:
            shape = (*shape[:-1], shape[-1] * p.lanes)
        total = p.elem.bytes
        for n in shape:
            total *= max(n, 0)
        if min(shape) < 0 or total > MOST_BYTES:
            return None
        made = np.zeros(shape, MEMORY[p.elem])
        at = made if dims is not None else made.reshape(-1)
        for _, index, n in (one for one in data if one[0] == p.name and p.lanes == 1):
            if len(index) == at.ndim and all(i < size for i, size in zip(index, at.shape)):
                at[index] = n
        args.append(made)
    return args


def _value(p: ValueArgument, n: int) -> Any:
    scalar = p.scalar
    one: Any = bool(n) if scalar.name == "bool" else float(n) if scalar.is_float else n
    return one if p.count == 1 else (one,) * p.count
