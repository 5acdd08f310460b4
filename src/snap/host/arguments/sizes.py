"""Shared memory whose size a launch decides: `shared(float[n], upto=4096)`.

Input:      a kernel in the typed IR, and a launch's arguments
Output:     how many rows each such array has, and how many bytes that makes
Invariant:  what exceeds its `upto`, or does not fit, is refused before anything runs, on the CPU machine as on a GPU
Non-goals:  where the arrays lie (`snap._compiler.codegen`)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

from snap._compiler.analysis.concrete import value
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import BLOCK_RESERVED, MOST_BLOCK_SHARED, SM_SHARED
from snap._compiler.ir.walk import statements
from snap.host.errors import LaunchError
from snap.record import record


@record
class LaunchSize:
    """One array: `extent` rows, at most `upto`, of `row` bytes each."""

    uid: int
    name: str
    upto: int
    row: int
    line: int
    extent: ir.Expr


@record
class LaunchShared:
    """What of a kernel's shared memory a launch decides.

    params: which argument each variable is, by uid; held: bytes of constant size; resident: how many blocks are to fit
    a multiprocessor.
    """

    arrays: tuple[LaunchSize, ...] = ()
    params: tuple[tuple[int, int], ...] = ()
    held: int = 0
    resident: int = 0


def shared_of(function: ir.Function) -> LaunchShared:
    found = [s.obj for s in statements(function.body) if type(s) is ir.DeclareShared and s.obj.extent is not None]
    arrays = []
    for obj in found:
        upto, *rest = ir.extents(obj.shape)
        assert obj.extent is not None
        row = obj.elem.bytes * math.prod(rest)
        arrays.append(LaunchSize(obj.uid, obj.name, upto, row, obj.span.line, obj.extent))
    params = tuple((p.var.uid, i) for i, p in enumerate(function.params) if isinstance(p, ir.ValueParam))
    return LaunchShared(tuple(arrays), params, function.smem, function.resident or 0)


def rows_at_launch(kernel: str, shared: LaunchShared, args: Iterable[object]) -> dict[int, int]:
    """By array: how many rows it has in this launch."""
    found, total, given = {}, shared.held, tuple(args)
    values = {uid: given[index] for uid, index in shared.params}
    for array in shared.arrays:
        rows = value(array.extent, lambda e: as_number(values.get(e.var.uid)) if isinstance(e, ir.Read) else None)
        rows = -1 if rows is None else int(rows)
        if not 0 <= rows <= array.upto:
            what = f"have a first extent of {rows}, and is declared with `upto={array.upto}`"
            raise LaunchError(
                kernel,
                f"the shared array `{array.name}` (line {array.line}) would"
                f" {what if rows >= 0 else 'have a size that is negative, or no number'}",
            )
        found[array.uid] = rows
        total += array.row * rows
    _fits(kernel, shared, total)
    return found


def as_number(argument: object) -> int | None:
    return operator.index(argument) if hasattr(argument, "__index__") else None


def _fits(kernel: str, shared: LaunchShared, total: int) -> None:
    if total > MOST_BLOCK_SHARED:
        raise LaunchError(
            kernel,
            f"{total} bytes of shared memory would be held at once, more than the {MOST_BLOCK_SHARED} that a block can"
            " have; its size follows from the arguments",
        )
    if shared.resident * (total + BLOCK_RESERVED) > SM_SHARED:
        raise LaunchError(
            kernel,
            f"`resident={shared.resident}`: that many blocks that hold {total} bytes of shared memory each do not"
            " fit on"
            f" an SM, which has {SM_SHARED}; their size follows from the arguments",
        )


def upto_of(obj: ir.MemObject) -> int:
    return ir.extents(obj.shape)[0]


def bytes_at_launch(module: Any, rows: dict[int, int]) -> int:
    """What the launch gives a block: the kernel adds up the same (`codegen/core/functions.py`)."""
    size = module.dynamic_smem
    for array in module.at_launch:
        size += -(-array.row * rows[array.obj.uid] // array.align) * array.align
    return size
