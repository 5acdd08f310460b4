"""Tensor-core fragments: `mma`, `ldmatrix`, `stmatrix`, with the registers laid out as PTX lays them out.

Lane l of a warp has g = l / 4 and t = l % 4.  Products are exact, but those of f64; sums are taken in f64, in which
those of integers are exact, and rounded to f32 once per instruction.
"""

from __future__ import annotations

import functools

import numpy as np

from snap._compiler.ir.hardware import MATRIX_ROW, MMA_FRAGMENTS, MMA_PACKED, WARP
from snap.machine.errors import FaultKind, MachineError
from snap.machine.lanes.lanes import FaultSite, Lanes
from snap.machine.lanes.numbers import BYTES, from_memory, round_tf32, to_memory
from snap.machine.lanes.warps import from_warps, to_warps

_G, _T = np.arange(WARP) // 4, np.arange(WARP) % 4


@functools.cache
def _layouts(words: tuple[int, int, int], packed: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Row and column of each (element, lane) of a, b and c, where a word holds so many elements: words of a go down by
    8 rows, then to the right; those of b down.
    """
    w, (i, j, k) = packed, (np.arange(n)[:, None] for n in (words[0] * packed, words[1] * packed, words[2]))
    return (
        (_G + 8 * (i // w % 2), w * _T + i % w + 4 * w * (i // w // 2)),
        (w * _T + j % w + 4 * w * (j // w), _G + 0 * j),
        (_G + 8 * (k // 2), 2 * _T + k % 2),
    )


def _assemble(lanes: Lanes, registers: tuple, layout: tuple, shape: tuple[int, int]) -> np.ndarray:
    """(blocks, warps, rows, columns) in f64."""
    parts = np.stack([to_warps(lanes, register) for register in registers], axis=2).astype(np.float64)
    out = np.empty((*parts.shape[:2], *shape))
    out[:, :, layout[0], layout[1]] = parts
    return out


def mma(lanes: Lanes, kind: str, args: tuple, shape: tuple[int, int, int] | None, saturate: bool) -> tuple:
    """Integers are exact, and wrap at 32 bits, or end there where `saturate`; f64 is summed in f64."""
    packed = kind.split(".")
    family = MMA_PACKED.get(packed[0], kind)
    (m, n, inner), words = next((s, w) for s, w in MMA_FRAGMENTS[family].items() if shape is None or s == shape)
    a, b, c = args[: words[0]], args[words[0] : words[0] + words[1]], args[words[0] + words[1] :]
    per = _PER_WORD.get(family, 1)
    if family == "tf32":
        a, b = tuple(map(round_tf32, a)), tuple(map(round_tf32, b))
    elif family in ("f16", "bf16"):
        words = (words[0] // 2, words[1] // 2, words[2])
    elif family != "f64":
        a, b = (tuple(x for word in side for x in _unpacked(word, one)) for side, one in zip((a, b), packed))
    of_a, of_b, of_c = _layouts(words, per)
    product = _assemble(lanes, a, of_a, (m, inner)) @ _assemble(lanes, b, of_b, (inner, n))
    total = product + _assemble(lanes, c, of_c, (m, n))
    if family in ("int8", "int4"):
        exact = total.astype(np.int64)
        total = (np.clip(exact, -(1 << 31), (1 << 31) - 1) if saturate else exact).astype(np.int32)
    elif family != "f64":
        total = total.astype(np.float32)
    spread = total[:, :, of_c[0], of_c[1]]
    return tuple(from_warps(lanes, np.ascontiguousarray(spread[:, :, i])) for i in range(words[2]))


_PER_WORD = {"f16": 2, "bf16": 2, "int8": 4, "fp8": 4, "int4": 8}


def _unpacked(word, kind: str) -> list[np.ndarray]:
    """Unpack a word, the lowest bits first."""
    word, bits = np.asarray(word).astype(np.uint32), 4 if kind in ("s4", "u4") else 8
    parts = [(word >> np.uint32(at)) & np.uint32((1 << bits) - 1) for at in range(0, 32, bits)]
    if kind in BYTES:
        return [BYTES[kind][part] for part in parts]
    signed = kind in ("s8", "s4")
    return [
        np.where(part >> (bits - 1), part.astype(np.int64) - (1 << bits), part) if signed else part for part in parts
    ]


def _rows(view, index: tuple, dims, m, count: int, site: FaultSite) -> tuple[np.ndarray, np.ndarray]:
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
            FaultKind.MISALIGNED,
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
        raise MachineError(FaultKind.OUT_OF_BOUNDS, text, site.span, block, thread)
    cells = first if view.offset is None else first + view.offset
    return cells, used


def ldmatrix(view, index: tuple, dims, m, count: int, trans: bool, site: FaultSite) -> tuple:
    lanes = view.lanes
    cells, used = _rows(view, index, dims, m, count, site)
    view.about_to_read(cells, used, site, width=8)
    rows = np.stack([to_warps(lanes, view.flat[cells + k]) for k in range(8)], axis=3)  # (blocks, warps, lane, element)
    out = []
    for i in range(count):
        matrix = rows[:, :, 8 * i : 8 * i + 8]
        for j in range(2):
            part = matrix[:, :, 2 * _T + j, _G] if trans else matrix[:, :, _G, 2 * _T + j]
            out.append(from_memory(from_warps(lanes, np.ascontiguousarray(part)), view.scalar))
    return tuple(out)


def stmatrix(view, index: tuple, dims, m, count: int, trans: bool, values: tuple, site: FaultSite) -> None:
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
    view.write_cells(cells, used, [from_warps(lanes, np.ascontiguousarray(rows[..., k])) for k in range(8)], site)
