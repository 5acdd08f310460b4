"""Local arrays: lists of values, one entry an element, so that storing an element never changes a value read before.

A vector is a tuple of its components.  `Layout` is an array seen with an element type and shape, its own or those of
`.view`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Array, Element, Scalar, Vector, scalar_of
from snap.machine.errors import FaultKind, MachineError
from snap.machine.lanes.lanes import FaultSite, Lanes
from snap.machine.lanes.masks import common, narrow, select
from snap.machine.lanes.numbers import MEMORY, REGISTER, from_memory, reinterpret


class LocalWindow:
    """Rows of a local array, by reference: the entries of its list from `start` on.  In a window of a window, `values`
    is the array's own list, so that whoever asks whose registers these are finds the array.
    """

    __slots__ = ("size", "start", "values")

    def __init__(self, values: list | LocalWindow, start: int, size: int):
        self.values = owner(values)
        self.start: int = start + (values.start if isinstance(values, LocalWindow) else 0)
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __iter__(self):
        return iter(self.values[self.start : self.start + self.size])

    def __getitem__(self, at):
        return list(self)[at] if isinstance(at, slice) else self.values[self.start + at]

    def __setitem__(self, at, new) -> None:
        if isinstance(at, slice):  # all of it
            self.values[self.start : self.start + self.size] = new
        else:
            self.values[self.start + at] = new


def window(lanes: Lanes, values: list, around: tuple[int, ...], index: tuple, m, site: FaultSite) -> LocalWindow:
    """The rows that leading indices, one value for all lanes, choose."""
    size = len(values) // prod(around)
    at = position(lanes, index, around, m, site)
    return LocalWindow(values, int(np.asarray(at).flat[0]) * size, size)


def owner(values: list | LocalWindow) -> list:
    """The array whose registers these are."""
    return values.values if isinstance(values, LocalWindow) else values


def zero(type: Element):
    value = REGISTER[scalar_of(type)](0)
    return (value,) * type.lanes if isinstance(type, Vector) else value


@dataclass(frozen=True, slots=True)
class Layout:
    own: Element
    seen: Element
    shape: tuple[int, ...]

    @staticmethod
    def of(ref: ir.ArrayRef) -> Layout:
        type = ref.var.type
        return Layout(type.elem if isinstance(type, Array) else type, ref.elem, ref.shape)

    @property
    def plain(self) -> bool:
        return self.own == self.seen

    def as_seen(self, values: list) -> list:
        """All elements as the view shows them."""
        if self.plain:
            return list(values) if isinstance(values, LocalWindow) else values
        scalars = [x for v in values for x in (v if type(v) is tuple else (v,))]
        if scalar_of(self.own) != scalar_of(self.seen):
            scalars = reinterpret(scalars, scalar_of(self.own), scalar_of(self.seen))
        return _grouped(scalars, self.seen)

    def as_stored(self, values: list) -> list:
        return Layout(self.seen, self.own, ()).as_seen(values)


def _grouped(scalars: list, elem: Element) -> list:
    if isinstance(elem, Scalar):
        return scalars
    return [tuple(scalars[k : k + elem.lanes]) for k in range(0, len(scalars), elem.lanes)]


def position(lanes: Lanes, index: tuple, shape: tuple[int, ...], m, site: FaultSite):
    """The linear index: a Python int where all lanes agree, else an array."""
    lin = 0
    for i, size in zip(index, shape):
        same = common(i)
        if same is not None and 0 <= same < size:
            lin = lin * size + same
            continue
        i = np.asarray(i).astype(np.int64)
        outside = (i < 0) | (i >= size)
        if outside.any():
            bad = lanes.active(m) & lanes.full(outside)
            if bad.any():
                at, block, thread = lanes.locate(bad)
                raise MachineError(
                    FaultKind.OUT_OF_BOUNDS,
                    f"index {int(lanes.full(i).flat[at])} is outside of `{site.name}`, which has size {size} there",
                    site.span,
                    block,
                    thread,
                )
            i = np.where(outside, 0, i)
        lin = lin * size + i
    return lin


def read(lanes: Lanes, values: list, layout: Layout, index: tuple, m, site: FaultSite):
    at = position(lanes, index, layout.shape, m, site)
    seen = layout.as_seen(values)
    if type(at) is int:
        return seen[at]
    out = None
    for k in np.unique(at):
        out = seen[k] if out is None else _choose(at == k, seen[k], out)
    return out


def _choose(c, new, old):
    return tuple(np.where(c, n, o) for n, o in zip(new, old)) if type(new) is tuple else np.where(c, new, old)


def write(
    lanes: Lanes, values: list, layout: Layout, index: tuple, m, value, site: FaultSite, lane: int | None = None
) -> None:
    """Store an element, or component `lane` of it, into the list in place."""
    at = position(lanes, index, layout.shape, m, site)
    if type(at) is int and layout.plain and lane is None and type(value) is not tuple:
        values[at] = select(m, value, values[at])
        return
    seen = list(layout.as_seen(values))
    for k in (at,) if type(at) is int else np.unique(at):
        here = m if type(at) is int else narrow(m, lanes.full(at == k))
        if here is False:
            continue
        new = value
        if lane is not None:
            new = tuple(value if j == lane else old for j, old in enumerate(seen[k]))
        seen[k] = (
            tuple(select(here, n, o) for n, o in zip(new, seen[k]))
            if type(new) is tuple
            else select(here, new, seen[k])
        )
    values[:] = layout.as_stored(seen)


def table_values(table: ir.Table) -> np.ndarray:
    """The elements of a table, as registers hold them."""
    return from_memory(np.frombuffer(table.data, MEMORY[table.elem]), table.elem)


def look_up(lanes: Lanes, values: np.ndarray, shape: tuple[int, ...], index: tuple, m, site: FaultSite):
    return values[position(lanes, index, shape, m, site)]


def passed(values: list, layout: Layout) -> list:
    """A copy of the array as a callee sees it."""
    return list(layout.as_seen(values))


def assign(values: list, new: list, m) -> None:
    """All elements at once."""
    values[:] = [
        tuple(select(m, n, o) for n, o in zip(a, b)) if type(a) is tuple else select(m, a, b)
        for a, b in zip(new, values)
    ]
