"""A launch that a proof has found, run on the CPU machine.

Input:      a specialized kernel, the number of blocks, numbers by name: parameters, and `len(x)` of arrays; and what
            arrays hold: a name, an index, a number
Output:     what the machine saw that is wrong: its kind ("out of bounds", "overlap", "race"), a text, and places; None
            for nothing, for a launch that is refused, and for one that would take too long
Invariant:  it changes nothing outside
Non-goals:  what else is in memory: zeros
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from snap.diag.span import Span
from snap.host.arguments.arrays import BadArray
from snap.host.arguments.signature import Pointer, ValueArgument
from snap.host.errors import LaunchError
from snap.host.launch import launcher, races

MOST_BYTES, MOST_THREADS, SECONDS = 1 << 26, 1 << 14, 3.0


Seen = tuple[str, str, tuple[Span, ...]]


def replay(
    compiled: Any,
    blocks: int,
    given: Mapping[str, int],
    data: Iterable[tuple[str, tuple[int, ...], int]],
    threads: int,
    seconds: float | None = None,
) -> Seen | None:
    """seconds: that are left for it; SECONDS are enough."""
    from snap.machine import MachineError

    calls, most = launcher(compiled), SECONDS if seconds is None else min(seconds / 2, SECONDS)
    if blocks * threads > MOST_THREADS:
        return None
    try:
        args = _arguments(calls, given, data)
        if args is None:
            return None
        grid = _grid(calls, blocks, given)
        calls.start(tuple(_copied(args)), grid, "cpu", seconds=most)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = races(compiled, _copied(args), grid, 2, most, False)
        return _told(found[0].error()) if found else None
    except MachineError as error:
        return _told(error)
    except (LaunchError, BadArray, ArithmeticError, ValueError):
        return None


def _grid(calls: Any, blocks: int, given: Mapping[str, int]) -> Any:
    """A kernel that asks for the shape of its grid is launched with as many extents."""
    axes = range(max(calls.signature.axes, default=-1) + 1)
    return tuple(given.get(f"grid[{axis}]", 0) for axis in axes) or blocks


def _told(error: Any) -> Seen:
    who = [f"{word} {n}" for word, n in (("block", error.block), ("thread", error.thread)) if n is not None]
    places = (error.span, *(label.span for label in error.diagnostic.secondary))
    return error.kind, error.met or f"{error.message}{' (' + ', '.join(who) + ')' if who else ''}", places


def _copied(args: list[Any]) -> list[Any]:
    return [arg.copy() if hasattr(arg, "copy") else arg for arg in args]


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
        shape = (given.get(f"len({p.name})", 0) * p.lanes,) if dims is None else tuple(dims(*values))
        if dims is not None:
            shape = (*shape[:-1], shape[-1] * p.lanes)
        total = p.elem.bytes
        for n in shape:
            total *= max(n, 0)
        if min(shape) < 0 or total > MOST_BYTES:
            return None
        made = np.zeros(shape, MEMORY[p.elem])
        for _, index, n in (one for one in data if one[0] == p.name and p.lanes == 1):
            if len(index) == made.ndim and all(i < size for i, size in zip(index, shape)):
                made[index] = n
        args.append(made)
    return args


def _value(p: ValueArgument, n: int) -> Any:
    scalar = p.scalar
    one: Any = bool(n) if scalar.name == "bool" else float(n) if scalar.is_float else n
    return one if p.count == 1 else (one,) * p.count
