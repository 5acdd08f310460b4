"""Products of tiles by a warpgroup, with accumulators and register operands laid out as PTX lays them out.

Input: tiles as they lie in shared memory, registers of the 128 threads.  Output: accumulators.  Invariant: both modes
of the machine multiply with `product`, matrix by matrix of the same shape, so that they agree bit for bit.  Products
are exact in f32 and sums are f32's; an operand of type tf32 loses its lower 13 bits, as in hardware.  Non-goals: when
it happens (flights.py), what may not touch it meanwhile (races.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARP, WARPGROUP, WGMMA_ROWS
from snap._compiler.ir.types import BF16, F16, F32, U8, scalar_of
from snap.machine.errors import FaultKind, MachineError
from snap.machine.lanes.lanes import FaultSite, Lanes
from snap.machine.lanes.locals import Layout
from snap.machine.lanes.numbers import BYTES, convert, from_bf16_bits, reinterpret, to_memory
from snap.machine.lanes.storage import StorageView

ELEMENT = {"bf16": BF16, "f16": F16, "tf32": F32, "e4m3": U8, "e5m2": U8}
_AT_ONCE = 1 << 21  # values stored at a time
_T = np.arange(WARPGROUP)
_ROW, _QUAD = _T // WARP * 16 + _T % WARP // 4, _T % 4


@cache
def accumulator(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each (value, thread) of a 64 x n matrix."""
    i = np.arange(n // 2)[:, None]
    return _ROW + 8 * (i // 2 % 2), i // 4 * 8 + _QUAD * 2 + i % 2


@cache
def operand(type: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each (value, thread) of a 64 x k matrix in registers; each instruction's part follows the one
    before.
    """
    per = 4 // ELEMENT[type].bytes  # neighbors in one register
    i = np.arange(k // 2)[:, None]
    step, i = i // (4 * per), i % (4 * per)
    return _ROW + 8 * (i // per % 2), step * 8 * per + _QUAD * per + i % per + 4 * per * (i // (2 * per))


# ---- numbers --------------------------------------------------------------------------------------------------------


def _truncated(x: np.ndarray) -> np.ndarray:
    """f32 with its lower 13 bits cleared: what the tensor cores see of it."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def decoded(bits: np.ndarray, type: str) -> np.ndarray:
    """Elements as they lie in memory -> f32."""
    match type:
        case "bf16":
            return from_bf16_bits(bits.view(np.uint16))
        case "f16":
            return bits.view(np.float16).astype(np.float32)
        case "tf32":
            return _truncated(bits.view(np.float32))
        case _:
            return BYTES[type][bits.view(np.uint8)]


_SMALL = 1 << 18  # multiplications that BLAS does in the calling thread: waking others takes far longer than a tile


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(N, 64, k) by (N, n, k) -> (N, 64, n), in f32; columns in portions."""
    count, n, k = b.shape
    portion = max((w for w in range(8, n + 1, 8) if n % w == 0 and WGMMA_ROWS * k * w <= _SMALL), default=8)
    right = np.ascontiguousarray(b).reshape(count, n // portion, portion, k).swapaxes(2, 3)
    made = np.matmul(np.ascontiguousarray(a)[:, None], right)
    return made.swapaxes(1, 2).reshape(count, WGMMA_ROWS, n)


# ---- tiles ----------------------------------------------------------------------------------------------------------


def tile_offsets(shape: tuple[int, ...], dims: tuple[int, ...]) -> np.ndarray:
    """Compute where each element of a tile lies relative to its first one, in elements, row by row."""
    out, stride = np.zeros(1, np.intp), 1
    for extent, size in zip(reversed(shape), reversed(dims)):
        out = (np.arange(extent)[:, None] * stride + out).reshape(-1)
        stride *= size
    return out


def matrix(elements: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(N, elements of a tile) -> (N, rows, columns); panels stand side by side."""
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) == 3:
        panels, rows, width = shape
        return elements.reshape(-1, panels, rows, width).swapaxes(1, 2).reshape(-1, rows, panels * width)
    return elements.reshape(-1, *shape)


@dataclass(slots=True, eq=False)
class TileSpec:
    """A tile of shared memory that a statement names; `offsets` by the dimensions of what it is part of.  columns: the
    first so many of a matrix are read alone, None where all are.
    """

    shape: tuple[int, ...]
    site: FaultSite
    columns: int | None = None
    _offsets: dict[tuple, np.ndarray] = field(default_factory=dict)

    def offsets(self, view: StorageView, dims: tuple[int, ...] | None) -> np.ndarray:
        """Scalars from the first one on."""
        dims = (view.size,) if dims is None else dims
        if dims not in self._offsets:
            found = tile_offsets(self.shape, dims)
            if self.columns is not None:
                found = matrix(found[None], self.shape)[0, :, : self.columns].reshape(-1)
            self._offsets[dims] = (
                found if view.width == 1 else (found[:, None] * view.width + np.arange(view.width)).reshape(-1)
            )
        return self._offsets[dims]

    def start(self, view: StorageView, index: tuple, dims, m) -> np.ndarray:
        """The first scalar of each lane's tile; all of the tile is inside."""
        first = view.resolve(index, dims, m, self.site)
        if any(extent > 1 for extent in self.shape):
            last = tuple(i + i.dtype.type(extent - 1) for i, extent in zip(index, self.shape))
            view.resolve(last, dims, m, self.site)
        return view.lanes.full(view.cells(first))


@dataclass(slots=True, eq=False)
class WgmmaSpec:
    """Describe a wgmma statement; `a` is None where registers hold A."""

    types: tuple[str, str]
    n: int
    k: int
    a: TileSpec | None
    b: TileSpec
    a_transposed: bool
    b_transposed: bool
    acc: Layout
    a_layout: Layout | None
    first: bool
    names: tuple[str, str]  # of the accumulators, of A's registers
    site: FaultSite

    @staticmethod
    def of(s: ir.Wgmma, sites: tuple[FaultSite, FaultSite, FaultSite]) -> WgmmaSpec:
        if isinstance(s.a, ir.Tile):
            tile, layout, name = TileSpec(s.a.shape, sites[0]), None, ""
        else:
            tile, layout, name = None, Layout.of(s.a), s.a.var.name
        return WgmmaSpec(
            s.types,
            s.n,
            s.k,
            tile,
            TileSpec(s.b.shape, sites[1], s.n if s.b_transposed else None),
            s.a_transposed,
            s.b_transposed,
            Layout.of(s.acc),
            layout,
            isinstance(s, synced.FencedWgmma),
            (s.acc.var.name, name),
            sites[2],
        )

    def from_tile(self, bits: np.ndarray, tile: TileSpec, transposed: bool) -> np.ndarray:
        """(N, rows, k) in f32."""
        shape = tile.shape if tile.columns is None else (self.k, tile.columns)
        found = matrix(decoded(bits, self.types[tile is self.b]), shape)
        return found.swapaxes(1, 2) if transposed else found

    def from_registers(self, values: np.ndarray) -> np.ndarray:
        """(k/2, N, 128) values -> (N, 64, k)."""
        out = np.empty((values.shape[1], WGMMA_ROWS, self.k), np.float32)
        row, column = operand(self.types[0], self.k)
        out[:, row, column] = values.swapaxes(0, 1)
        return out

    def a_values(self, registers: list) -> list:
        """A's elements, each a value of all lanes, as f32."""
        assert self.a_layout is not None, "A is in registers"
        seen = [x for v in self.a_layout.as_seen(registers) for x in (v if type(v) is tuple else (v,))]
        have, want = scalar_of(self.a_layout.seen), ELEMENT[self.types[0]]
        if have != want:
            seen = reinterpret(seen, have, want)
        if self.types[0] == "tf32":
            return [_truncated(np.asarray(x)) for x in seen]
        return [
            BYTES[self.types[0]][np.asarray(x).view(np.uint8)] if want == U8 else np.asarray(x, np.float32)
            for x in seen
        ]

    def before(self, acc: list) -> list:
        """Return the elements that the product is added to: the first ones of an array that accumulates."""
        return self.acc.as_seen(acc)[: self.n // 2]

    def put(self, acc: list, values: list) -> None:
        """These are what they are then; what follows them stays."""
        acc[:] = self.acc.as_stored([*values, *self.acc.as_seen(acc)[self.n // 2 :]])

    def total(self, a: np.ndarray, b: np.ndarray, before: np.ndarray, zero: np.ndarray) -> np.ndarray:
        """(N, n/2, 128) accumulators: the product, added to those `before` (N, n/2, 128) except where `zero` (N)."""
        row, column = accumulator(self.n)
        made = product(a, b)[:, row, column]
        kept = before.astype(np.float32) + made
        out = np.where(zero[:, None, None], made, kept) if zero.any() else kept
        return out.astype(np.float16) if scalar_of(self.acc.seen) == F16 else out


# ---- reference mode: at once ----------------------------------------------------------------------------------------


def _groups(lanes: Lanes, m) -> tuple[np.ndarray, np.ndarray]:
    """Block (row) and number of each warpgroup that takes part."""
    return np.nonzero(lanes.active(m)[:, ::WARPGROUP])


def _by_group(lanes: Lanes, x, rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """(N, 128): what the threads of each warpgroup hold."""
    full = lanes.full(x)
    if full.shape[1] % WARPGROUP:
        full = np.pad(full, ((0, 0), (0, -full.shape[1] % WARPGROUP)))
    return full.reshape(full.shape[0], -1, WARPGROUP)[rows, groups]


def wgmma(lanes: Lanes, spec: WgmmaSpec, acc: list, a, b: tuple, zero, m) -> None:
    """`a`: a list of registers, or view, index and dimensions of a tile, as `b`."""
    rows, groups = _groups(lanes, m)
    left = (
        spec.from_registers(np.stack([_by_group(lanes, x, rows, groups) for x in spec.a_values(a)]))
        if spec.a is None
        else spec.from_tile(_tiles(lanes, spec.a, a, rows, groups, m), spec.a, spec.a_transposed)
    )
    right = spec.from_tile(_tiles(lanes, spec.b, b, rows, groups, m), spec.b, spec.b_transposed)
    seen = spec.before(acc)
    before = np.stack([_by_group(lanes, x, rows, groups) for x in seen], axis=1)
    none = np.zeros(len(rows), np.bool_)
    after = spec.total(left, right, before, none if zero is None else _by_group(lanes, zero, rows, groups)[:, 0])
    out = np.empty((len(seen), lanes.shape[0], -(-lanes.shape[1] // WARPGROUP), WARPGROUP), after.dtype)
    if m is not None:
        for i, x in enumerate(seen):
            full = np.pad(lanes.full(x), ((0, 0), (0, -lanes.shape[1] % WARPGROUP)))
            out[i] = full.reshape(out.shape[1:])
    out[:, rows, groups] = after.swapaxes(0, 1)
    spec.put(acc, list(out.reshape(*out.shape[:2], -1)[:, :, : lanes.shape[1]]))


def _tiles(lanes: Lanes, tile: TileSpec, where: tuple, rows, groups, m) -> np.ndarray:
    """(N, elements), as they lie in memory.  `where`: view, index and dimensions."""
    view, index, dims = where
    starts = tile.start(view, index, dims, m)[rows, groups * WARPGROUP]
    cells = starts[:, None] + tile.offsets(view, dims)
    check_written(view, cells, tile.site)
    return view.flat.take(cells)


def check_written(view: StorageView, cells: np.ndarray, site: FaultSite) -> None:
    """All of what is about to be read was written."""
    if view.shadow is None or view.storage.is_complete():
        return
    bad = view.shadow[cells] != np.iinfo(view.shadow.dtype).max
    if bad.any():
        at = int(cells.reshape(-1)[int(bad.argmax())])
        element = at % max(view.stride, 1) // view.width
        lanes = view.lanes
        block = int(lanes.block[at // view.stride % lanes.shape[0], 0]) if view.stride else None
        text = f"element {element} of `{view.name}` is read before anything was written there"
        view.storage.uninitialized(MachineError(FaultKind.UNINITIALISED, text, site.span, block))


# ---- accumulators into memory ---------------------------------------------------------------------------------------


def store_acc(
    lanes: Lanes, tile: TileSpec, layout: Layout, acc: list, view: StorageView, index: tuple, dims, first, m
) -> None:
    """Each thread writes the values it holds of the tile's columns; in both modes."""
    seen = layout.as_seen(acc)
    starts = tile.start(view, index, dims, m)
    where = matrix(tile.offsets(view, dims)[None], tile.shape)[0]
    row, column = accumulator(2 * len(seen))
    threads = lanes.thread[0] % WARPGROUP
    active = lanes.active(m)
    begins = lanes.full(first).astype(np.intp)
    step = max(2, _AT_ONCE // active.size // 2 * 2)  # whole pairs of columns
    for i in range(0, len(seen), step):
        at = column[i : i + step, None, threads] - begins
        chosen = active & (at >= 0) & (at < where.shape[1])
        if chosen.any():
            cells = starts + where[row[i : i + step, None, threads], np.where(chosen, at, 0)]
            values = convert(np.stack([lanes.full(x) for x in seen[i : i + step]]), scalar_of(layout.seen), view.scalar)
            view.write_many(cells, chosen, to_memory(values, view.scalar), tile.site)
