"""Boxes between shared and global memory: which elements they are, and moving them.

Input: for each box its first element on both sides.  Output: memory, changed.  Invariant: elements outside of the
global array are zero when loaded and left out when stored; all of a tile is inside of its shared array, or it is a
fault.  Non-goals: when it happens (flights.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.clusters import Part
from snap._compiler.ir.hardware import BOX_BYTES
from snap.machine.errors import FaultKind, MachineError
from snap.machine.lanes.lanes import FaultSite, Lanes
from snap.machine.lanes.numbers import from_memory, loaded_as_tf32, to_memory
from snap.machine.lanes.storage import StorageView
from snap.machine.lanes.tensor import TileSpec, check_written

_AT_ONCE = 1 << 21  # elements moved at a time
COMBINE = {
    ir.BoxOp.ADD: np.add,
    ir.BoxOp.MIN: np.minimum,
    ir.BoxOp.MAX: np.maximum,
    ir.BoxOp.AND: np.bitwise_and,
    ir.BoxOp.OR: np.bitwise_or,
    ir.BoxOp.XOR: np.bitwise_xor,
}


@dataclass(slots=True, eq=False)
class BoxSpec:
    """Describe a TMA copy's statement. copies: the tile is memory of which every block of the cluster holds a copy."""

    op: ir.BoxOp
    tile: TileSpec
    box: tuple[int, ...]
    copies: bool
    part: tuple[int, int] | None  # the blocks that hold copies of one value, where these are not all
    tf32: bool
    site: FaultSite  # of the global side

    @staticmethod
    def of(s: ir.BoxCopy, tile: FaultSite, origin: FaultSite) -> BoxSpec:
        obj = s.tile.access.view.obj
        return BoxSpec(
            s.op, TileSpec(s.tile.shape, tile), s.box, obj.spread is ir.Spread.COPIES, obj.part, s.tf32, origin
        )

    @property
    def loads(self) -> bool:
        return self.op is ir.BoxOp.LOAD

    def receivers(self, block: int, size: int) -> list[int]:
        """The blocks, by their numbers in the grid, into whose copies a block of a cluster of that size loads."""
        rank = block % size
        part = Part(size, 1) if self.part is None else Part(*self.part)
        return [block - rank + other for other in part.blocks(rank)]

    def share(self, block: int, size: int, width: int) -> slice:
        """The scalars (`width` an element) of the tile that one block loads for all that hold a copy: its share of the
        rows.
        """
        part = Part(size, 1) if self.part is None else Part(*self.part)
        rank, blocks = part.place(block % size), part.size
        rows = next((extent for extent in self.box if extent > 1), 1)
        row = prod(self.box) // rows * width
        return slice(rows * rank // blocks * row, rows * (rank + 1) // blocks * row)


@dataclass(slots=True, eq=False)
class Boxes:
    """Boxes that lanes issue together.  By box: the lane (row and column among the lanes), where its tile begins, its
    first element's index in each dimension of the array.
    """

    spec: BoxSpec
    view: StorageView
    offsets: np.ndarray
    array: StorageView
    dims: tuple[int, ...]
    rows: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    origin: list[np.ndarray]

    def tile(self, which: slice) -> np.ndarray:
        """(boxes, scalars): where each scalar lies in shared memory."""
        return self.starts[which, None] + self.offsets

    def outside(self, which: slice) -> tuple[np.ndarray, np.ndarray | None]:
        """(boxes, scalars): where each scalar lies in global memory, and whether it does; None where all do."""
        lin, inside, whole = np.zeros((1,), np.int64), None, True
        for first, extent, size in zip(self.origin, self.spec.box, self.dims):
            at = first[which, None] + np.arange(extent)
            fits = (at >= 0) & (at < size)
            whole = whole and bool(fits.all())
            lin = (lin[..., None] * size + at[:, None, :]).reshape(len(at), -1) if lin.ndim > 1 else at
            inside = fits if inside is None else (inside[..., None] & fits[:, None, :]).reshape(len(at), -1)
        width = self.array.width
        if width > 1:
            lin = (lin[..., None] * width + np.arange(width)).reshape(len(lin), -1)
            inside = np.repeat(inside, width, axis=1)
        return (lin, None) if whole else (np.where(inside, lin, 0), inside)


def boxes(lanes: Lanes, spec: BoxSpec, tile: tuple, origin: tuple, m) -> Boxes:
    """`tile`, `origin`: view, index and dimensions; `m`: the lanes that issue."""
    view, index, dims = tile
    starts = spec.tile.start(view, index, dims, m)
    rows, columns = np.nonzero(lanes.active(m))
    array, at, shape = origin
    shape = tuple(int(d) if np.ndim(d) == 0 else int(np.asarray(d).flat[0]) for d in shape)
    if prod(shape) > array.size:
        raise MachineError(
            FaultKind.OUT_OF_BOUNDS,
            f"`{array.name}` has {array.size} elements, fewer than its shape says",
            spec.site.span,
        )
    first = [lanes.full(i)[rows, columns].astype(np.int64) for i in at]
    _check_start(lanes, spec, array, first, rows, columns)
    return Boxes(spec, view, spec.tile.offsets(view, dims), array, shape, rows, columns, starts[rows, columns], first)


def _check_start(
    lanes: Lanes, spec: BoxSpec, array: StorageView, first: list[np.ndarray], rows: np.ndarray, columns: np.ndarray
) -> None:
    """Along its rows a box begins at a multiple of 16 bytes, and one that is stored at no negative index; the hardware
    stops the kernel elsewhere.
    """

    def refuse(kind: FaultKind, k: int, text: str, note: str) -> MachineError:
        return MachineError(
            kind, text, spec.site.span, int(lanes.block[rows[k], 0]), int(lanes.thread[0, columns[k]]), note=note
        )

    size = array.flat.dtype.itemsize * array.width
    if array.storage.address % BOX_BYTES and len(rows):
        raise refuse(
            FaultKind.MISALIGNED,
            0,
            f"TMA copies boxes of `{array.name}`, and it starts {array.storage.address % BOX_BYTES} bytes past a"
            f" multiple of {BOX_BYTES}",
            "a slice may start anywhere: pass a copy of it (`.copy()`)",
        )
    wrong = np.flatnonzero(first[-1] * size % BOX_BYTES)
    if len(wrong):
        at = int(first[-1][wrong[0]])
        raise refuse(
            FaultKind.MISALIGNED,
            wrong[0],
            f"the last index of `at` is {at}, {at * size} bytes into a row of `{array.name}`: not a multiple of"
            f" {BOX_BYTES}",
            f"a TMA box starts at a multiple of {BOX_BYTES} bytes in its row, here of {max(1, BOX_BYTES // size)}"
            " elements",
        )
    for dimension, index in enumerate(() if spec.loads else first):
        wrong = np.flatnonzero(index < 0)
        if len(wrong):
            at = int(index[wrong[0]])
            raise refuse(
                FaultKind.OUT_OF_BOUNDS,
                wrong[0],
                f"a TMA store to `{array.name}` starts at index {at} of dimension {dimension}",
                "a TMA store may end outside of its array, but not start before it; a TMA load may",
            )


def claim(lanes: Lanes, made: Boxes, claims: tuple) -> None:
    """The global side of boxes is part of partitions that are declared disjoint: (handle, its units, the scope)
    each.  Reductions are atomic: in partitions that are only watched they may meet.
    """
    lane: Any = (
        (lanes.block[made.rows, 0].astype(np.int64) * lanes.threads + lanes.thread[0, made.columns]) if claims else None
    )
    for k in range(len(made.starts) if claims else 0):
        cells, inside = made.outside(slice(k, k + 1))
        cells = np.unique((cells if inside is None else cells[inside]).reshape(-1) // made.array.width)
        for handle, unit, scope in claims:
            lanes.claim_cells(
                handle,
                unit,
                scope,
                made.array,
                cells,
                np.full(len(cells), lane[k]),
                not made.spec.loads,
                made.spec.site,
                atomic=bool(made.spec.op.combines),
            )


def fetched(array: StorageView, cells: np.ndarray, inside: np.ndarray | None, tf32: bool) -> np.ndarray:
    """Return what a load brings, as it lies in memory or rounded to tf32."""
    bits = loaded_as_tf32(array.flat.take(cells)) if tf32 else array.flat.take(cells)
    return bits if inside is None else np.where(inside, bits, bits.dtype.type(0))


def deliver(op: ir.BoxOp, array: StorageView, cells: np.ndarray, inside: np.ndarray | None, bits: np.ndarray) -> None:
    """Put one box (or, of 'store', several) into global memory, combined with what is there."""
    array.lanes.launch.changes += 1
    if inside is not None:
        cells, bits = cells[inside], bits[inside]
    if op.combines:
        there = from_memory(array.flat[cells], array.scalar)
        bits = to_memory(COMBINE[op](there, from_memory(bits, array.scalar)), array.scalar)
    array.flat[cells] = bits


# ---- reference mode: at once ----------------------------------------------------------------------------------------


def box_copy(lanes: Lanes, spec: BoxSpec, tile: tuple, origin: tuple, m, claims: tuple) -> None:
    made = boxes(lanes, spec, tile, origin, m)
    claim(lanes, made, claims)
    count = len(made.starts)
    step = max(1, _AT_ONCE // len(made.offsets)) if not spec.op.combines and not spec.copies else 1
    for first in range(0, count, step):
        which = slice(first, first + step)
        inner = made.tile(which)
        outer, inside = made.outside(which)
        lanes.moved(made, which, outer, inside)
        if spec.copies and spec.loads:
            _multicast(lanes, made, which, inner, outer, inside)
        elif spec.loads:
            made.view.put_bits(inner, fetched(made.array, outer, inside, spec.tf32))
        else:
            check_written(made.view, inner, spec.tile.site)
            deliver(spec.op, made.array, outer, inside, made.view.flat.take(inner))


def _multicast(lanes: Lanes, made: Boxes, which: slice, inner, outer, inside) -> None:
    """One block's share, for all blocks that hold a copy."""
    size, row = lanes.launch.blocks_per_cluster, int(made.rows[which][0])
    block = int(lanes.block[row, 0])
    part = made.spec.share(block, size, made.view.width)
    bits = fetched(made.array, outer[:, part], None if inside is None else inside[:, part], made.spec.tf32)
    for other in made.spec.receivers(block, size):
        made.view.put_bits(inner[:, part] + (other - block) * made.view.stride, bits)
