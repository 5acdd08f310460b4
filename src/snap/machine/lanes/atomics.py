"""Atomic operations of many lanes at once, as if applied one after the other in the order of the lanes."""

from __future__ import annotations

import numpy as np

from snap._compiler.ir.types import BF16, Scalar
from snap.machine.lanes.lanes import FaultSite, LogKind, Ordering
from snap.machine.lanes.numbers import from_memory, round_bf16, to_memory


def _combine(op: str, type: Scalar):
    """The new value from the old one and the operand."""
    match op:
        case "add":
            return (lambda a, b: round_bf16(a + b)) if type == BF16 else np.add
        case "min":
            return np.fmin if type.is_float else np.minimum
        case "max":
            return np.fmax if type.is_float else np.maximum
        case "and":
            return np.bitwise_and
        case "or":
            return np.bitwise_or
        case "xor":
            return np.bitwise_xor
        case "exch" | "store":
            return lambda a, b: b
        case "inc":
            return lambda a, b: np.where(a >= b, np.uint32(0), a + np.uint32(1))
        case "dec":
            return lambda a, b: np.where((a == 0) | (a > b), b, a - np.uint32(1))
        case _:
            raise ValueError(f"unknown atomic {op}")


def atomic(view, op: str, index: tuple, dims, m, args: tuple, wanted: bool, order: Ordering, site: FaultSite):
    """Perform it; the old values (load: the values) of all lanes, or None where nobody wants them."""
    lanes = view.lanes
    if op == "load":
        return view.load(index, dims, m, site, LogKind.ATOMIC_READ, order)
    if op == "store":
        view.store(index, dims, m, args[0], site, LogKind.ATOMIC, order)
        return None
    cells = view.cells(view.resolve(index, dims, m, site))
    view.about_to_read(cells, m, site, LogKind.ATOMIC, order)
    active = lanes.active(m)
    cells = lanes.full(cells)[active].astype(np.intp)
    combine = _combine(op, view.scalar) if op != "cas" else None
    if view.several:  # each component by itself
        given = [lanes.full(part)[active] for part in args[0]]
        parts = [_in_order(view, op, combine, cells + k, (one,)) for k, one in enumerate(given)]
        return tuple(_spread(lanes, active, old) for old in parts) if wanted else None
    operands = tuple(lanes.full(arg)[active] for arg in args)
    if not wanted and isinstance(combine, np.ufunc) and not view.encoded:
        lanes.launch.changes += 1
        combine.at(view.flat, cells, operands[0])
        return None
    old = _in_order(view, op, combine, cells, operands)
    return _spread(lanes, active, old) if wanted else None


def _spread(lanes, active: np.ndarray, old: np.ndarray) -> np.ndarray:
    out = np.zeros(lanes.shape, old.dtype)
    out[active] = old
    return out


def _in_order(view, op: str, combine, cells: np.ndarray, operands: tuple) -> np.ndarray:
    """Apply lane by lane; the value each lane found."""
    order = np.argsort(cells, kind="stable")
    sorted_cells = cells[order]
    first = np.ones(len(cells), np.bool_)
    first[1:] = sorted_cells[1:] != sorted_cells[:-1]
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    rank = np.arange(len(cells)) - starts[group]
    old = np.empty(len(cells), from_memory(view.flat[:0], view.scalar).dtype)
    if op == "add" and view.scalar.is_integer:
        amounts = operands[0][order]
        before = np.cumsum(amounts, dtype=amounts.dtype) - amounts
        old[order] = view.flat[sorted_cells] + (before - before[starts][group])
        view.lanes.launch.changes += bool(amounts.any())  # a loop that waits may ask by adding 0
        np.add.at(view.flat, cells, operands[0])
        return old
    ends = np.cumsum(np.bincount(rank))
    by_rank = order[np.argsort(rank, kind="stable")] if len(ends) > 1 else order
    changed = False
    begin = 0
    for end in ends:
        now, begin = by_rank[begin:end], end  # within one round all cells are different
        found = from_memory(view.flat[cells[now]], view.scalar)
        if op == "cas":
            compare, value = operands[0][now], operands[1][now]
            new = np.where(_bits(found) == _bits(compare), value, found)
        else:
            new = combine(found, operands[0][now])
        changed = changed or not np.array_equal(_bits(new), _bits(found))
        view.flat[cells[now]] = to_memory(new, view.scalar)
        old[now] = found
    if changed:
        view.lanes.launch.changes += 1
    return old


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")
