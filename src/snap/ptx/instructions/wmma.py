"""`wmma`: matrices that a warp loads, multiplies and stores, without saying which lane holds what.

Input: one instruction.  Output: what it does.  The ISA leaves open which elements a lane's registers hold; only that
`wmma.mma` and `wmma.store` find them where `wmma.load` and `wmma.mma` of the same matrix, shape, type and layout have
put them.  Rule here, of a matrix of R rows and C columns, of which each lane holds n elements, lowest bits first:

  held(lane, e)  = p((lane * n + e) mod (R * C)), counted row by row; p is the identity, or a permutation that is drawn
                   from `seed=`, of the matrix (c and d are one), the shape, the type, and a's and b's layout
  at(i, j)       = address + width * (i * stride + j) for `.row`, address + width * (j * stride + i) for `.col`
  d              = a b + c, added as mma.sync adds (sums.py)

So a program whose result depends on who holds what gives another one with another seed.  f16 matrices that are smaller
than the registers for them lie there more than once.  Non-goals: 4 bits and single bits; alignment of more than an
element; f64 that is not rounded to nearest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions.accesses import loaded, stored
from snap.ptx.instructions.collectives import together
from snap.ptx.instructions.matrices import BITS_OF, EXACT, FULL, WARP, Sums, decoded, whole
from snap.ptx.instructions.sums import added, rule
from snap.ptx.machine.lanes import Lanes, Step
from snap.ptx.machine.memory import Fault
from snap.ptx.program.resolve import Instruction, listed
from snap.ptx.text.types import DTYPE
from snap.record import record

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

SPACES = {"global": "global", "shared": "shared", "shared::cta": "shared"}
SMALL, OWN = frozenset(("f16", "bf16", "s8", "u8")), {"m16n16k8": "tf32", "m8n8k4": "f64"}  # whose shape is its own
SUMS = {"bf16": "f32", "tf32": "f32", "f64": "f64", "s8": "s32", "u8": "s32"}


@record
class Matrix:
    """which: a, b, or c, which d is, too.  layout: of a and b."""

    which: str
    shape: str
    type: str
    layout: str = ""

    @property
    def extent(self) -> tuple[int, int]:
        rows, rest = self.shape[1:].split("n")
        columns, inner = rest.split("k")
        m, n, k = int(rows), int(columns), int(inner)
        return {"a": (m, k), "b": (k, n), "c": (m, n)}[self.which]

    @property
    def width(self) -> int:
        return DTYPE[self.type].itemsize if self.which == "c" else BITS_OF[self.type] // 8

    @property
    def count(self) -> int:
        """Elements of a lane."""
        rows, columns = self.extent
        return 16 if self.type == "f16" and self.which != "c" else rows * columns // WARP

    def held(self, m: Machine) -> np.ndarray:
        """(lanes, elements): which element of the matrix each is."""
        rows, columns = self.extent
        places = np.arange(WARP * self.count).reshape(WARP, -1) % (rows * columns)
        if m.drawn is None:
            return places
        draw = np.random.default_rng((m.drawn.seed, crc32(repr(self).encode())))
        return draw.permutation(rows * columns)[places]


def step(m: Machine, one: Instruction, pc: int) -> Step | None:
    match one.parts[1:]:
        case ("load", "a" | "b" | "c" as which, "sync", "aligned", layout, shape, *more):
            matrix = _matrix(which, shape, more[-1], layout)
            return None if matrix is None else _load(m, one, pc, matrix, layout, _space(more[:-1]))
        case ("store", "d", "sync", "aligned", layout, shape, *more):
            matrix = _matrix("c", shape, more[-1], layout)
            return None if matrix is None else _store(m, one, pc, matrix, layout, _space(more[:-1]))
        case ("mma", "sync", "aligned", first, second, shape, *types):
            return _multiply(m, one, pc, (first, second), shape, types)
    return None


def _matrix(which: str, shape: str, type: str, layout: str) -> Matrix | None:
    if which == "c":
        return Matrix("c", shape, type) if type in EXACT else None
    fits = OWN[shape] == type if shape in OWN else type in SMALL
    return Matrix(which, shape, type, layout) if fits else None


def _space(words: list[str]) -> str:
    return next((SPACES[w] for w in words if w in SPACES), "")


def _same(m: Machine, one: Instruction, rows: np.ndarray, what: str) -> np.ndarray:
    """Require that all lanes of a warp give the same value."""
    if (rows != rows[:, :1]).any():
        lane = int(np.argmax((rows != rows[:, :1]).reshape(-1)))
        raise Fault(PtxFaultKind.BARRIER_MISMATCH, f"lanes of a warp give {one.name} different {what}", lane)
    return rows


class _Places:
    """Say where the elements of a matrix lie in memory, and in the registers of a lane."""

    def __init__(self, m: Machine, one: Instruction, matrix: Matrix, layout: str, space: str, at: int):
        self.m, self.one, self.matrix = m, one, matrix
        self.address = m.addresses(one.operands[at], one.function, space)
        self.stride = m.reader(one.operands[2], "u32", one.function) if len(one.operands) > 2 else None
        self.held = matrix.held(m)
        i, j = np.divmod(self.held, matrix.extent[1])
        self.outer, self.inner = (i, j) if layout == "row" else (j, i)
        self.least = matrix.extent[1] if layout == "row" else matrix.extent[0]

    def found(self, lanes: Lanes) -> np.ndarray:
        """(elements, lanes): addresses."""
        whole(self.m, lanes, WARP, self.one)
        rows = lambda values: np.broadcast_to(values, lanes.shape).reshape(-1, WARP)  # noqa: E731
        start = _same(self.m, self.one, rows(self.address(lanes)), "addresses").astype(np.uint64)
        stride = np.full(start.shape, self.least, np.uint64)
        if self.stride is not None:
            stride = _same(self.m, self.one, rows(self.stride(lanes)), "strides").astype(np.uint64)
        place = stride[:, :, None] * self.outer.astype(np.uint64) + self.inner.astype(np.uint64)
        bytes = start[:, :, None] + place * np.uint64(self.matrix.width)
        return bytes.reshape(len(lanes), -1).T


def _load(m: Machine, one: Instruction, pc: int, matrix: Matrix, layout: str, space: str) -> Step:
    writers = [m.writer(o, one.function) for o in listed(one.operands[0])]
    places = _Places(m, one, matrix, layout, space, 1)
    word = _word(matrix)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, FULL, pc)
        if not len(lanes):
            return
        bits = [loaded(m, space, np.ascontiguousarray(at), lanes, matrix.width) for at in places.found(lanes)]
        words = np.ascontiguousarray(np.stack(bits, axis=1)).view(DTYPE[word])
        for k, write in enumerate(writers):
            write(lanes, np.ascontiguousarray(words[:, k]))

    return step


def _store(m: Machine, one: Instruction, pc: int, matrix: Matrix, layout: str, space: str) -> Step:
    word = _word(matrix)
    readers = [m.reader(o, word, one.function) for o in listed(one.operands[1])]
    places = _Places(m, one, matrix, layout, space, 0)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, FULL, pc)
        if not len(lanes):
            return
        words = np.stack([np.broadcast_to(read(lanes), lanes.shape) for read in readers], axis=1)
        bits = np.ascontiguousarray(words.astype(DTYPE[word])).view(f"u{matrix.width}")
        for k, at in enumerate(places.found(lanes)):
            stored(m, space, np.ascontiguousarray(at), lanes, np.ascontiguousarray(bits[:, k]))

    return step


def _word(matrix: Matrix) -> str:
    """The type of a register, which holds an element, or several."""
    return matrix.type if matrix.width >= 4 and matrix.type in DTYPE else "b32"


def _multiply(
    m: Machine, one: Instruction, pc: int, layouts: tuple[str, str], shape: str, types: list[str]
) -> Step | None:
    saturated = "satfinite" in types
    types = [t for t in types if t not in ("satfinite", "rn")]
    d, a, b, c = (types[0], "f16", "f16", types[1]) if len(types) == 2 else (*types, "", "", "", "")[:4]
    left, right = _matrix("a", shape, a, layouts[0]), _matrix("b", shape, b, layouts[1])
    if left is None or right is None or {d, c} - ({"f16", "f32"} if a == "f16" else {SUMS[a]}):
        return None
    after, before = Matrix("c", shape, d), Matrix("c", shape, c)
    operands = [listed(o) for o in one.operands]
    size = max(BITS_OF[a], 32)
    reads = [[m.reader(o, f"b{size}", one.function) for o in some] for some in operands[1:3]]
    old, new = Sums(m, operands[3], c, one.function, False), Sums(m, operands[0], d, one.function, True)
    exact, how = EXACT[d], rule(a, b, False)
    held_a, held_b, held_c, held_d = (x.held(m) for x in (left, right, before, after))

    def matrix(lanes: Lanes, some: list, what: Matrix, held: np.ndarray) -> np.ndarray:
        words = [np.broadcast_to(r(lanes), lanes.shape).reshape(-1, WARP) for r in some]
        bits = np.ascontiguousarray(np.stack(words, axis=2)).view(f"u{what.width}")
        return _filled(what, held, decoded(bits, what.type).astype(exact))

    @np.errstate(all="ignore")
    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, FULL, pc)
        if not len(lanes):
            return
        whole(m, lanes, WARP, one)
        first, second = matrix(lanes, reads[0], left, held_a), matrix(lanes, reads[1], right, held_b)
        begun = np.stack([x.reshape(-1, WARP) for x in old.read(lanes)], axis=2).astype(exact)
        total = added(first, second, _filled(before, held_c, begun), d, how).reshape(len(first), -1)
        new.write(lanes, [total[:, held_d[:, e]] for e in range(after.count)], saturated)

    return step


def _filled(what: Matrix, held: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """(warps, rows, columns) of what lanes hold."""
    rows, columns = what.extent
    out = np.zeros((len(parts), rows * columns), parts.dtype)
    out[:, held.reshape(-1)] = parts.reshape(len(parts), -1)
    return out.reshape(-1, rows, columns)
