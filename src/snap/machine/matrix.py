"""Tensor-core fragments: `mma`, `ldmatrix`, `stmatrix`, with the registers laid out as PTX lays them out.

Lane l of a warp has g = l / 4 and t = l % 4.  Products are exact; sums are taken in f64 and rounded to f32 once per
instruction.
"""

from __future__ import annotations

import numpy as np

from snap.ir.hardware import MATRIX_ROW, WARP
from snap.machine.errors import MachineError
from snap.machine.lanes import Lanes, Site
from snap.machine.numbers import from_memory, round_tf32, to_memory
from snap.machine.warps import from_warps, to_warps

_G, _T = np.arange(WARP) // 4, np.arange(WARP) % 4


def _layout(count: int, place) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each (register, lane)."""
    places = [place(i) for i in range(count)]
    return np.stack([row for row, _ in places]), np.stack([col for _, col in places])


_A = {
    "tf32": _layout(4, lambda i: (_G + 8 * (i % 2), _T + 4 * (i // 2))),
    "16": _layout(8, lambda i: (_G + 8 * (i // 2 % 2), 2 * _T + i % 2 + 8 * (i // 4))),
}
_B = {"tf32": _layout(2, lambda i: (_T + 4 * i, _G)), "16": _layout(4, lambda i: (2 * _T + i % 2 + 8 * (i // 2), _G))}
_C = _layout(4, lambda i: (_G + 8 * (i // 2), 2 * _T + i % 2))


def _assemble(lanes: Lanes, registers: tuple, layout: tuple, shape: tuple[int, int]) -> np.ndarray:
    """(blocks, warps, rows, columns) in f64."""
    parts = np.stack([to_warps(lanes, register) for register in registers], axis=2).astype(np.float64)
    out = np.empty((*parts.shape[:2], *shape))
    out[:, :, layout[0], layout[1]] = parts
    return out


def mma(lanes: Lanes, kind: str, args: tuple) -> tuple:
    form, inner = ("tf32", 8) if kind == "tf32" else ("16", 16)
    count_a, count_b = len(_A[form][0]), len(_B[form][0])
    a, b, c = args[:count_a], args[count_a : count_a + count_b], args[count_a + count_b :]
    if kind == "tf32":
        a, b = tuple(map(round_tf32, a)), tuple(map(round_tf32, b))
    product = _assemble(lanes, a, _A[form], (16, inner)) @ _assemble(lanes, b, _B[form], (inner, 8))
    total = (product + _assemble(lanes, c, _C, (16, 8))).astype(np.float32)
    spread = total[:, :, _C[0], _C[1]]
    return tuple(from_warps(lanes, np.ascontiguousarray(spread[:, :, i])) for i in range(4))


def _rows(view, index: tuple, dims, m, count: int, site: Site) -> tuple[np.ndarray, np.ndarray]:
    """Cells of the 8 elements that each lane's address points to, and which lanes' addresses count."""
    lanes = view.lanes
    used = lanes.active(m) & (np.arange(lanes.shape[1])[None, :] % WARP < 8 * count)
    # Elements may be addressed in any width; rows are 16 bytes.
    lin = np.where(used, view.resolve(index, dims, used, site), 0)
    per_row = MATRIX_ROW // view.scalar.bytes
    first = lin * view.width
    crooked = used & (first % per_row != 0)
    if crooked.any():
        at, block, thread = lanes.locate(crooked)
        raise MachineError(
            "misaligned",
            f"element {int(lin.flat[at])} of `{view.name}` does not begin a row of 16 bytes",
            site.span,
            block,
            thread,
            note="ldmatrix and stmatrix address rows of 8 elements on 16-byte boundaries",
        )
    bad = used & (first + per_row > view.size * view.width)
    if bad.any():
        at, block, thread = lanes.locate(bad)
        text = (
            f"the row of 16 bytes at element {int(lin.flat[at])} ends outside of `{view.name}`, which has {view.size}"
        )
        raise MachineError("out of bounds", text, site.span, block, thread)
    cells = first if view.offset is None else first + view.offset
    return cells, used


def ldmatrix(view, index: tuple, dims, m, count: int, trans: bool, site: Site) -> tuple:
    lanes = view.lanes
    cells, used = _rows(view, index, dims, m, count, site)
    for k in range(8):
        view.about_to_read(cells + k, used, site)
    rows = np.stack([to_warps(lanes, view.flat[cells + k]) for k in range(8)], axis=3)  # (blocks, warps, lane, element)
    out = []
    for i in range(count):
        matrix = rows[:, :, 8 * i : 8 * i + 8]
        for j in range(2):
            part = matrix[:, :, 2 * _T + j, _G] if trans else matrix[:, :, _G, 2 * _T + j]
            out.append(from_memory(from_warps(lanes, np.ascontiguousarray(part)), view.scalar))
    return tuple(out)


def stmatrix(view, index: tuple, dims, m, count: int, trans: bool, values: tuple, site: Site) -> None:
    lanes = view.lanes
    cells, used = _rows(view, index, dims, m, count, site)
    stored = [to_warps(lanes, to_memory(np.asarray(value), view.scalar)) for value in values]
    rows = np.zeros((*stored[0].shape, 8), stored[0].dtype)
    for i in range(count):
        for j in range(2):
            part = stored[2 * i + j]
            if trans:
                rows[:, :, 8 * i + 2 * _T + j, _G] = part
            else:
                rows[:, :, 8 * i + _G, 2 * _T + j] = part
    for k in range(8):
        view.write_cells(cells + k, used, from_warps(lanes, np.ascontiguousarray(rows[..., k])), site)
