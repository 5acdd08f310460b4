"""Memory, checked: every access is compared with the real size of what it addresses.

A `Storage` is one object's bytes; a `StorageView` sees them as elements of one type.  Shared memory has one copy a
block and a shadow that says which bytes were written.  Inactive lanes address element 0, and nobody looks at what they
read.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from snap._compiler.ir.hardware import WIDEST
from snap._compiler.ir.types import Element, Scalar, Vector, alignment
from snap.machine.errors import FaultKind, MachineError
from snap.machine.lanes.lanes import RELAXED, FaultSite, Lanes, LogKind, Ordering
from snap.machine.lanes.numbers import BITS, MEMORY, from_memory, to_memory

ndarray = np.ndarray
# Who is told of accesses: view, cells, scalars at each, mask, kind, what it orders, site.
Record = Callable[["StorageView", object, int, object, LogKind, Ordering, FaultSite], None]
READ, WRITE = LogKind.READ, LogKind.WRITE
_UNSIGNED = {
    np.dtype(np.int32): np.uint32,
    np.dtype(np.int64): np.uint64,
    np.dtype(np.uint32): np.uint32,
    np.dtype(np.uint64): np.uint64,
}


class GlobalStorage:
    """A kernel's array.  It is always initialized.  identity: of any storage, what tells its memory from others'."""

    shadow = None

    def __init__(self, lanes: Lanes, array: np.ndarray, name: str, record: Record | None = None):
        self.lanes, self.name, self.record = lanes, name, record
        self.bytes = array.reshape(-1).view(np.uint8)
        self.address = self.identity = self.bytes.ctypes.data
        self.views: dict[Element, StorageView] = {}

    def view(self, elem: Element) -> StorageView:
        if elem not in self.views:
            self.views[elem] = StorageView(self, elem, 0)
        return self.views[elem]


class SharedStorage:
    """A shared array of every block at hand, uninitialized."""

    record: Record | None = None
    address = 0
    swizzle = 0  # of its chunks on a GPU, where lanes count (counting.py); here they lie in order

    def __init__(self, lanes: Lanes, size: int, name: str):
        self.lanes, self.name = lanes, name
        self.pitch = max(-(-size // WIDEST) * WIDEST, WIDEST)
        self.size = size
        self.bytes = np.zeros(lanes.shape[0] * self.pitch, np.uint8)
        self.shadow = np.zeros_like(self.bytes)
        self.complete, self.dirty = False, False
        self.views: dict[Element, StorageView] = {}
        self.identity = self

    def view(self, elem: Element) -> StorageView:
        if elem not in self.views:
            self.views[elem] = StorageView(self, elem, self.pitch)
        return self.views[elem]

    def uninitialized(self, error: MachineError) -> None:
        raise error

    def is_complete(self) -> bool:
        """Test whether every byte is initialized, so that later reads need not ask."""
        if self.dirty and not self.complete:
            self.dirty = False
            self.complete = bool(self.shadow.reshape(-1, self.pitch)[:, : self.size].all())
        return self.complete


class Prepared:
    """The part of an index that does not change in a loop (or between launches), checked and linear; the rest is a
    shift that all lanes share.

    lin: each lane's cell, from `base` on; bounds: per dimension lowest and highest index, size and stride; top: the
    highest of `lin`, in elements; run: lanes address consecutive elements, and only the shape of `lin` means anything.
    """

    __slots__ = ("lin", "bounds", "base", "top", "run")

    def __init__(self, lin, bounds, base, top, run):
        self.lin, self.bounds, self.base, self.top, self.run = lin, bounds, base, top, run


def _exceeds(room, most: int) -> bool:
    """Test whether any lane exceeds it."""
    return room > most if type(room) is int else bool(np.any(np.greater(room, most)))


class StorageView:
    """`size` elements (a block, if `stride`) of `width` scalars each; `stride` is the distance of two blocks' copies in
    scalars; `past`: so many bytes the first one lies behind an address where the hardware could access it.
    """

    def __init__(self, storage, elem: Element, pitch: int):
        self.storage, self.lanes, self.name = storage, storage.lanes, storage.name
        self.scalar: Scalar = elem.elem if isinstance(elem, Vector) else elem
        self.width = elem.lanes if isinstance(elem, Vector) else 1
        dtype = np.dtype(MEMORY[self.scalar])
        usable = len(storage.bytes) // dtype.itemsize * dtype.itemsize
        self.flat = storage.bytes[:usable].view(dtype)
        self.stride = pitch // dtype.itemsize
        self.bytes, self.pitch = elem.bytes, pitch // elem.bytes  # of an element; elements between two blocks' copies
        self.size = (storage.size if pitch else len(storage.bytes)) // elem.bytes
        self.needs = alignment(elem)
        self.past = storage.address % self.needs
        self.shadow: Any = None if storage.shadow is None else storage.shadow[:usable].view(BITS[8 * dtype.itemsize])
        self.ones = None if self.shadow is None else ~self.shadow.dtype.type(0)  # of an element that was written
        self.offset = self.lanes.row * self.stride if self.stride and self.lanes.shape[0] > 1 else None
        self.several = self.width > 1
        self.record = storage.record
        self.encoded = MEMORY[self.scalar] is np.uint16 and self.scalar.is_float

    # ---- bounds ----

    def resolve(self, index: tuple, dims, m, site: FaultSite):
        """The linear index of each lane's element; inactive lanes give 0."""
        lin = self._linear(index, dims, m, site)
        if self.past and self.lanes.active(m).any():
            _, block, thread = self.lanes.locate(self.lanes.active(m))
            told = (
                f"`{self.name}` is accessed {self.needs} bytes at a time, and begins {self.past} past a multiple of"
                f" {self.needs}"
            )
            raise MachineError(
                FaultKind.MISALIGNED,
                told,
                site.span,
                block,
                thread,
                help="a slice may start anywhere: pass a copy of it (`.copy()`), or view it as narrower elements",
            )
        return lin

    def _linear(self, index: tuple, dims, m, site: FaultSite):
        if dims is None:
            return self._inside(index[0], self.size, m, site, index)
        room = 1
        for d in dims:
            room = room * d
        wide = _exceeds(room, 0x7FFFFFFF)
        lin = None
        for axis, (i, d) in enumerate(zip(index, dims)):
            i = self._inside(i, d, m, site, index, axis)
            if wide:
                i = i.astype(np.int64)
            lin = i if lin is None else lin * d + i
        if _exceeds(room, self.size):
            lin = self._inside(lin, self.size, m, site, index)
        return lin

    def _inside(self, i, limit, m, site: FaultSite, index: tuple, axis: int | None = None):
        if type(i) is not ndarray:
            if type(limit) is ndarray or not 0 <= i < limit:
                return self._inside(np.full((1, 1), i), limit, m, site, index, axis)
            return i
        if m is not None:
            i = np.where(m, i, i.dtype.type(0))
        kind = _UNSIGNED.get(i.dtype)
        u = i.astype(np.int32).view(np.uint32) if kind is None else i.view(kind)
        if (u >= limit.astype(u.dtype)).any() if type(limit) is ndarray else u.max() >= limit:
            bad = self.lanes.active(m) & self.lanes.full(u >= limit)
            if bad.any():
                self._out_of_bounds(i, limit, bad, site, index, axis)
            return np.where(u < limit, i, i.dtype.type(0))
        return i

    def _out_of_bounds(self, i, limit, bad, site: FaultSite, index: tuple, axis: int | None) -> None:
        at, block, thread = self.lanes.locate(bad)
        value = int(self.lanes.full(i).flat[at])
        size = int(self.lanes.full(limit).flat[at])
        shown = ", ".join(str(int(self.lanes.full(x).flat[at])) for x in index)
        where = (
            f"dimension {axis}, which has size {size}"
            if axis is not None and len(index) > 1
            else f"its {size} element{'s' * (size != 1)}"
        )
        raise MachineError(
            FaultKind.OUT_OF_BOUNDS,
            f"`{self.name}[{shown}]`: {value} is outside of {where}",
            site.span,
            block,
            thread,
            note=f"`{site.name}` is a name for part of `{self.name}`" if site.name != self.name else "",
        )

    def cells(self, lin):
        """Compute where an element's first scalar lies in `flat`."""
        if self.several:
            lin = lin * self.width
        return lin if self.offset is None else lin + self.offset

    def of_block(self, rank, m, site: FaultSite) -> StorageView:
        """The same array in another block of the cluster."""
        blocks = self.lanes.launch.blocks_per_cluster
        bad = self.lanes.active(m) & self.lanes.full((rank < 0) | (rank >= blocks))
        if bad.any():
            at, block, thread = self.lanes.locate(bad)
            text = (
                f"`{self.name}` of block {int(self.lanes.full(rank).flat[at])}: the cluster has {blocks}"
                f" block{'s' * (blocks != 1)}"
            )
            raise MachineError(FaultKind.OUT_OF_BOUNDS, text, site.span, block, thread)
        rank = np.where(self.lanes.active(m), rank, 0)
        seen = copy(self)
        seen.offset = (self.lanes.row // blocks * blocks + rank) * self.stride
        return seen

    # ---- reading ----

    def load(self, index: tuple, dims, m, site: FaultSite, kind: LogKind = READ, order: Ordering = RELAXED):
        cells = self.cells(self.resolve(index, dims, m, site))
        self.about_to_read(cells, m, site, kind, order)
        if not self.several:
            return self._get(cells)
        return tuple(self._get(cells + k) for k in range(self.width))

    def about_to_read(
        self,
        cells,
        m,
        site: FaultSite,
        kind: LogKind = READ,
        order: Ordering = RELAXED,
        width: int | None = None,
    ) -> None:
        """width: how many scalars each lane reads, where that is not an element."""
        width = self.width if width is None else width
        if self.record is not None:
            self.record(self, cells, width, m, kind, order, site)
        if self.shadow is not None and not self.storage.is_complete():
            self._check_initialized(cells, m, site, width)

    def _get(self, cells):
        value = self.flat.take(cells, mode="wrap") if type(cells) is ndarray else self.flat[cells]
        return from_memory(value, self.scalar) if self.encoded else value

    def _check_initialized(self, cells, m, site: FaultSite, width: int) -> None:
        shadow, ones = self.shadow, self.ones
        bad = np.zeros((), np.bool_)
        for k in range(width):
            bad = bad | (shadow[cells + k] != ones)
        if bad.any():
            bad = self.lanes.active(m) & self.lanes.full(bad)
            if bad.any():
                at, block, thread = self.lanes.locate(bad)
                element = int(self.lanes.full(cells).flat[at]) % max(self.stride, 1) // self.width
                text = f"element {element} of `{self.name}` is read before anything was written there"
                self.storage.uninitialized(MachineError(FaultKind.UNINITIALISED, text, site.span, block, thread))

    # ---- the first part of an element ----

    def first(self, index: tuple, dims, m, unit: Element, count, site: FaultSite) -> tuple[StorageView, np.ndarray]:
        """View memory as `unit`, for elements of which only the first `count` are read (at least one), and return the
        view with the index of each lane's first. The elements after those may lie outside.
        """
        parts, seen = self.storage.view(unit), copy(self)
        each = self.flat.itemsize * self.width // unit.bytes
        seen.size = -(-parts.size // each)
        start = np.multiply(seen.resolve(index, dims, m, site), each, dtype=np.int64)
        last = start + count - 1
        parts._inside(last, parts.size, m, site, (last,))
        return parts, start

    def load_first(self, index: tuple, dims, m, unit: Element, count, site: FaultSite):
        """`load`, with zeros for all but the first parts."""
        parts, start = self.first(index, dims, m, unit, count, site)
        cells, count, active = parts.cells(start), self.lanes.full(count) * parts.width, self.lanes.active(m)
        each = np.arange(self.flat.itemsize * self.width // parts.flat.itemsize)[:, None, None]
        some, cells = active & (count > each), self.lanes.full(cells) + each
        if self.record is not None:
            self.lanes.record_many(parts, cells, some, site, READ)
        found = np.zeros(some.shape, parts.flat.dtype)
        found[some] = parts.flat[cells[some]]
        whole = np.ascontiguousarray(np.moveaxis(found, 0, -1)).view(self.flat.dtype)
        values = (from_memory(v, self.scalar) if self.encoded else v for v in np.moveaxis(whole, -1, 0))
        return tuple(values) if self.several else next(values)

    # ---- writing ----

    def store(
        self, index: tuple, dims, m, value, site: FaultSite, kind: LogKind = WRITE, order: Ordering = RELAXED
    ) -> None:
        cells = self.cells(self.resolve(index, dims, m, site))
        if self.record is not None:
            self.record(self, cells, self.width, m, kind, order, site)
        self.lanes.launch.changes += 1
        if not self.several:
            self._set(cells, m, value)
            return
        for k, part in enumerate(value):
            self._set(cells + k, m, part)

    def store_component(self, index: tuple, dims, m, lane: int, value, site: FaultSite) -> None:
        cells = self.cells(self.resolve(index, dims, m, site)) + lane
        if self.record is not None:
            self.record(self, cells, 1, m, WRITE, RELAXED, site)
        self.lanes.launch.changes += 1
        self._set(cells, m, value)

    def write_cells(self, cells, m, bits: list[np.ndarray], site: FaultSite) -> None:
        """Store values as they lie in memory, to scalars side by side whose place was checked."""
        if self.record is not None:
            self.record(self, cells, len(bits), m, WRITE, RELAXED, site)
        self.lanes.launch.changes += 1
        active = self.lanes.active(m)
        chosen = self.lanes.full(cells)[active]
        for k, part in enumerate(bits):
            self.flat[chosen + k] = part[active]
            self._mark(chosen + k)

    def write_many(self, cells: np.ndarray, chosen: np.ndarray, bits: np.ndarray, site: FaultSite) -> None:
        """`write_cells` of several scalars a lane: (scalars, blocks, threads)."""
        if self.record is not None:
            self.lanes.record_many(self, cells, chosen, site, WRITE)
        self.put_bits(cells[chosen], bits[chosen])

    def put_bits(self, cells: np.ndarray, bits: np.ndarray) -> None:
        """Write what a copy brings, as it lies in memory, to scalars whose place was checked; its issuer has
        logged it.
        """
        self.lanes.launch.changes += 1
        self.flat[cells] = bits
        self._mark(cells)

    def _set(self, cells, m, value) -> None:
        if self.encoded:
            value = to_memory(value, self.scalar)
        lanes = self.lanes
        if m is not None:
            active = lanes.active(m)
            cells = lanes.full(cells)[active]
            if type(value) is ndarray and value.size > 1:
                value = lanes.full(value)[active]
            elif type(value) is ndarray:
                value = value.reshape(())
        elif type(cells) is not ndarray:
            if type(value) is ndarray:
                value = value.flat[-1]
        elif type(value) is ndarray and value.shape != cells.shape:
            shape = np.broadcast_shapes(value.shape, cells.shape)
            cells, value = np.broadcast_to(cells, shape).ravel(), np.broadcast_to(value, shape).ravel()
        elif type(value) is ndarray:
            cells, value = cells.ravel(), value.ravel()
        self.flat[cells] = value
        self._mark(cells)

    def _mark(self, cells) -> None:
        if self.shadow is not None and not self.storage.complete:
            self.shadow[cells] = self.ones
            self.storage.dirty = True

    # ---- indices prepared once ----

    def prepare(self, parts: tuple, dims, m, run: bool = False) -> Prepared | None:
        """`parts`: per dimension the fixed part of the index, or None.  `run` asks whether lanes address consecutive
        elements.
        """
        if dims is None:
            dims = (self.size,)
        if self.past or any(type(d) is ndarray for d in dims):
            return None
        if (
            run
            and len(parts) == 1
            and not self.several
            and self.shadow is None
            and _consecutive(parts[0], self.lanes.shape)
        ):
            first, count = int(parts[0].flat[0]), parts[0].size
            shape_only = np.broadcast_to(np.intp(0), parts[0].shape)
            return Prepared(shape_only, [(first, first + count - 1, dims[0], 1)], first, count - 1, True)
        stride, strides = 1, list[int]()
        for d in reversed(dims):
            strides.insert(0, stride)
            stride *= d
        bounds, base, lin = [], 0, np.zeros((), np.int64)
        for part, d, step in zip(parts, dims, strides):
            if part is None:
                bounds.append((0, 0, d, step))
                continue
            if m is not None:
                active = self.lanes.active(m)
                part = np.where(m, part, self.lanes.full(part).flat[int(active.argmax())])
            part = np.asarray(part)
            low, high = int(part.min()), int(part.max())
            bounds.append((low, high, d, step))
            base += low * step
            lin = lin + (part.astype(np.int64) - low) * step
        top = int(lin.max())
        cells = np.ascontiguousarray(self.cells(lin), np.intp)
        return Prepared(cells, bounds, base, top, False)

    def _start(self, p: Prepared, shifts: tuple) -> int | None:
        """Return where the window begins that `p.lin` addresses; None unless all of it is inside."""
        start = p.base
        for (low, high, limit, step), shift in zip(p.bounds, shifts):
            if shift is not None:
                shift = shift.item()
                low, high, start = low + shift, high + shift, start + shift * step
            if low < 0 or high >= limit:
                return None
        if start < 0 or start + p.top >= self.size:
            return None
        return start * self.width

    def _start_of_prefix(self, p: Prepared, m, shifts: tuple) -> tuple[int, int]:
        """Return where consecutive elements begin, and how many there are, if the first lanes are the active ones (a
        guard such as `i < n`); else 0, 0.
        """
        if m is None or not p.run or len(p.bounds) > 1:
            return 0, 0
        active = self.lanes.full(m).ravel()
        count = int(np.count_nonzero(active))
        start = p.base + (0 if shifts[0] is None else shifts[0].item())
        if start < 0 or start + count > min(self.size, p.bounds[0][2]) or not active[:count].all():
            return 0, 0
        return start, count

    def fetch(self, p: Prepared | None, m, *shifts):
        """Load what `p` addresses, or return None: the index must then be checked lane by lane."""
        if p is None:
            return None
        start = self._start(p, shifts)
        if start is None:
            start, count = self._start_of_prefix(p, m, shifts)
            if count == 0 or self.shadow is not None:
                return None
            value = np.zeros(p.lin.shape, self.flat.dtype)
            value.reshape(-1)[:count] = self.flat[start : start + count]
            return from_memory(value, self.scalar) if self.encoded else value
        if self.shadow is not None and not self.storage.is_complete():
            if self.several or not (self.shadow[start:].take(p.lin, mode="wrap") == self.ones).all():
                return None
        if p.run:
            value = self.flat[start : start + p.lin.size].reshape(p.lin.shape).copy()
        elif self.several:
            return tuple(self._get_window(start + k, p.lin) for k in range(self.width))
        else:
            return self._get_window(start, p.lin)
        return from_memory(value, self.scalar) if self.encoded else value

    def _get_window(self, start: int, lin):
        value = self.flat[start:].take(lin, mode="wrap")
        return from_memory(value, self.scalar) if self.encoded else value

    def put(self, p: Prepared | None, m, value, *shifts) -> bool:
        """`store`; False where the careful way must be gone."""
        if p is None or self.several or self.shadow is not None:
            return False
        start: int | None
        if m is not None:
            start, count = self._start_of_prefix(p, m, shifts)
            if count == 0:
                return False
            if self.encoded:
                value = to_memory(value, self.scalar)
            self.lanes.launch.changes += 1
            self.flat[start : start + count] = self.lanes.full(value).reshape(-1)[:count]
            return True
        start = self._start(p, shifts)
        if start is None or p.lin.shape != self.lanes.shape:
            return False
        if self.encoded:
            value = to_memory(value, self.scalar)
        self.lanes.launch.changes += 1
        if p.run:
            self.flat[start : start + p.lin.size].reshape(p.lin.shape)[...] = value
        else:
            self.flat[start:][p.lin] = value
        return True


def _consecutive(index, shape: tuple[int, int]) -> bool:
    """Test whether lane after lane addresses element after element."""
    if type(index) is not ndarray or index.shape != shape:
        return False
    flat = index.ravel()
    return bool((flat[1:] - flat[:-1] == 1).all())
