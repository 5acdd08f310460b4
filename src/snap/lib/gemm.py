"""`snap.lib.gemm`: activation(a @ b + bias) on the tensor cores.

Input:      a of M x K, b of K x N, f16 or bf16, in any strides; a bias of N, the name of an activation
Output:     M x N, in the type of a or, where `out` is so, in f32; sums are f32
Invariant:  a matrix or its transpose that is row-major, with rows and an address of whole 16 bytes, is read where it
lies; any other is copied first,
            its rows filled up with zeros, and so is one whose rows are not whole sectors where that is faster.  A
            result that cannot be written where it belongs is copied there.  The same matrices give the same bits
Non-goals:  batches; GPUs other than Hopper's
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Iterator

from snap.ir.types import BF16, F16, F32, U16, Scalar
from snap.lib.arrays import Argument, argument, exchange, same_place
from snap.lib.gemm_kernels import ACTIVATIONS, DEPTH, PANEL, gemm_kernel
from snap.lib.gemm_slices import slices_kernel
from snap.lib.gemm_thin import MOST_STAGES, STRIP, thin_kernel
from snap.record import record
from snap.runtime.arrays import classify
from snap.runtime.errors import LaunchError

TYPES = (BF16, F16)
ROW = 16  # bytes, of which rows and addresses are multiples where boxes are copied
SECTOR = 32  # bytes: rows that do not begin at multiples of it are slow to load
LINE = 128  # bytes, of which the rows of copies are multiples
TILES = (
    (128, 256),
    (128, 224),
    (128, 192),
    (128, 160),
    (128, 128),
    (128, 96),
    (128, 64),
    (64, 256),
    (64, 192),
    (64, 128),
    (64, 64),
)
PAIR = 2  # blocks of a cluster that share B
PAIRS = ((128, 256), (128, 224), (128, 128), (64, 128))  # tiles of such clusters
SLICED = ((128, 256), (128, 192), (128, 128), (128, 64), (64, 128), (64, 64))  # tiles of clusters that divide k
SLICES = (2, 4, 8)
LOW = (8, 16, 32)  # heights of tiles of few rows, all of which are STRIP wide
BAND_ROWS = 1024  # of the result: the height of the bands in which tiles are taken
MOST_PARTS = 8  # of a tile that is divided


def gemm(a, b, out=None, bias=None, activation=None):
    """`a @ b`, plus a bias for each column, then "relu", "gelu" (with erf) or "silu".  Bits of bf16 may come in NumPy's
    uint16.
    """
    if activation not in ACTIVATIONS:
        raise LaunchError(
            "snap.lib.gemm",
            f"is one of {', '.join(repr(name) for name in ACTIVATIONS)}, not {activation!r}",
            "activation",
        )
    left, right = _operand("a", a), _operand("b", b)
    same_place("gemm", left.given, "b", right.given)
    if left.given.type != right.given.type:
        raise LaunchError("snap.lib.gemm", f"holds {right.given.type}, the first matrix {left.given.type}", "b")
    (rows, depth), (other, columns) = left.shape, right.shape
    if depth != other:
        raise LaunchError("snap.lib.gemm", f"has {other} rows, and the first matrix {depth} columns", "b")
    added = None if bias is None else _bias(bias, left.given, columns)
    written = _result(left.given.new((rows, columns)) if out is None else out, left.given, (rows, columns))
    if written.size == 0:
        return written.array
    plan = planned(
        rows, columns, depth, left.given.multiprocessors(), left.uneven, right.uneven, left.turned, right.turned
    )
    if _has_boxes(written):
        _check_apart(
            written,
            left.given if left.lies(plan.copied[0]) else None,
            right.given if right.lies(plan.copied[1]) else None,
            added,
        )
    A, B = left.ready(plan.copied[0]), right.ready(plan.copied[1])
    C = written.array if _has_boxes(written) else _room(written)
    arguments = (A, B, C, added.array if added else A, *A.shape, *B.shape, C.shape[1], rows, columns, max(depth, 1))
    types, after = (left.given.type, written.type), (added and added.type, activation)
    kinds = (*types, left.turned, right.turned, plan.height, plan.width, plan.band, *after)
    match plan.kind:
        case "thin":
            thin_kernel(*types, right.turned, plan.height, plan.width, *after, plan.slices)[plan.blocks](
                *arguments, _exchange(left.given, plan)[0]
            )
        case "slices":
            slices_kernel(*kinds, plan.slices)[plan.blocks](*arguments, _exchange(left.given, plan)[0])
        case _:
            run = gemm_kernel(*kinds, plan.divided > 0, plan.team)
            run[plan.blocks](*arguments, *_exchange(left.given, plan), plan.divided, plan.share)
    if C is not written.array:
        _copy(written.info.family, written.array, C[:, :columns])
    return written.array


# ---- who computes what ----------------------------------------------------------------------------------------------

# Cycles of an H200's multiprocessor, as measured.
PRODUCTS, ISSUE = 30, 35  # a step of 64 along k takes height * width / PRODUCTS + ISSUE: as long as without any loads
LONE, LEAST = 60, 325  # a step takes so much longer where one warpgroup multiplies; a step of the smallest tiles
EVEN, UNEVEN = (
    2.1,
    3.7,
)  # to load a row of 64 elements, when all multiprocessors do so; UNEVEN where it does not begin at a sector
HALF = 0.77  # as much for a row of 32
LOW_STEP = 200  # a step of tiles of few rows
OUTSIDE = 7.3  # a row of a box that lies outside of A
MULTICAST = 1.2  # loads of a cluster take so much longer than their rows
MEMORY, IN_FLIGHT = (
    2450,
    5.5e6,
)  # bytes that memory delivers to all of them in a cycle, when it is asked for so many at a time
TILE = 5000  # a tile besides its steps: filling the pipeline, writing the result
CLUSTER = 1300  # blocks of a cluster wait for each other when they begin and end
DIVISION, PART = 25000, 5000  # the last round's tiles divided; each part that is added
GIVEN = 0.5  # a sum that is given to another block of a cluster
COPY, COPIED = 6000, 600  # to begin a copy; elements that are copied in a cycle
LARGE_CLUSTERS = 12  # multiprocessors without any, where clusters have more than two blocks


@record
class Plan:
    """kind: "tiles" or "pairs" (gemm_kernels.py), "slices" or "thin" (gemm_slices.py, gemm_thin.py); height, width: of
    a tile; copied: which operands are copied first; divided, share: see gemm_kernels.py; slices: blocks of a cluster
    that divide k
    """

    cycles: float
    height: int
    width: int
    blocks: int
    copied: tuple[bool, bool] = (False, False)
    kind: str = "tiles"
    divided: int = 0
    share: int = 1
    slices: int = 1

    @property
    def team(self) -> int:
        """Blocks that load B together."""
        return PAIR if self.kind == "pairs" else 1

    @property
    def band(self) -> int:
        return BAND_ROWS // (self.height * self.team)

    @property
    def exchanged(self) -> int:
        """Sums that go from one block to another."""
        match self.kind:
            case "thin":
                return self.blocks * self.height * self.width if self.slices > 1 else 0
            case "slices":
                return self.blocks // self.slices * (self.slices - 1) * self.height * self.width
            case _:
                return self.blocks * self.height * self.width if self.divided else 0


@record
class Shape:
    """Of a product: extents, multiprocessors, and of both operands whether rows begin in the middle of sectors, and
    whether they lie transposed.
    """

    rows: int
    columns: int
    depth: int
    multiprocessors: int
    uneven: tuple[bool, bool]
    turned: tuple[bool, bool]

    @property
    def steps(self) -> int:
        return -(-max(self.depth, 1) // DEPTH)

    def tiles(self, height: int, width: int) -> int:
        return -(-self.rows // height) * -(-self.columns // width)

    def step(
        self, height: int, width: int, busy: float, copied: tuple[bool, bool] = (False, False), sharing: int = 1
    ) -> float:
        """Cycles of a step of a tile; busy: the part of the multiprocessors that load; sharing: blocks that load B
        together.
        """
        a, b = (UNEVEN if uneven and not there else EVEN for uneven, there in zip(self.uneven, copied))
        b_rows = width if self.turned[1] or width % PANEL == 0 else HALF * 2 * width
        loads = (height * a + b_rows / sharing * b) * math.sqrt(min(1, busy)) * (MULTICAST if sharing > 1 else 1)
        if busy <= 1:
            loads = max(loads, -self.rows % height * OUTSIDE)
        return max(_together(height * width / PRODUCTS + ISSUE + (height == 64) * LONE, loads), LEAST)

    def memory(self, flight: float = IN_FLIGHT) -> float:
        """Cycles until memory has delivered everything, where it is asked for so many bytes at a time."""
        size = 2 * (self.rows * self.depth + self.depth * self.columns + self.rows * self.columns)
        return size / (MEMORY * math.sqrt(min(1, flight / IN_FLIGHT)))

    def at_least(self, cycles: float) -> float:
        """`cycles`, or what memory takes."""
        return _together(cycles, self.memory() + TILE)


def _together(one: float, other: float) -> float:
    """The time of two things done at the same time: a little longer than the longer one."""
    return (one**6 + other**6) ** (1 / 6)


# Each multiprocessor runs one block at a time, so what counts is how long the busiest takes.  Measured on an H200:
# - Large tiles win where there are enough of them.  128 x 256 multiplies as fast as without any loads, so clusters,
# which load less, win nothing.
# - The last round is seldom full: 8192^3 has 15.5 rounds of tiles.  Divided along k among all, it takes half as long:
# 1.7% less time at 8192^3.
#   Exchanging sums takes some 15 us, so at 4096^3, where an eighth of a round would be saved, dividing loses 6%.
# - Tiles of 224 and 160 columns are for products that nearly fit: 5000^3 has 6.06 rounds of 128 x 256, and 6.97 of 128
# x 224.  A B that is not
#   transposed is loaded in panels of 32 columns then, which take nearly as long as those of 64.
# - Rows that begin in the middle of a sector take nearly twice as long to load, and clusters ask for fewer: 1000^3
# takes 14% less time with them, and
#   3080^3 17%.  Otherwise B is copied, with whole lines.
# - Few tiles and many steps, as 128 x 4096 x 14336: with the steps divided between two blocks, sums exchanged once, it
# takes 20% less time.
# - Few rows, as 8 x 4096 x 14336, take 45% less time with tiles as high as A.
@functools.lru_cache(4096)
def planned(
    rows: int,
    columns: int,
    depth: int,
    multiprocessors: int,
    a_uneven: bool = False,
    b_uneven: bool = False,
    a_turned: bool = False,
    b_turned: bool = False,
) -> Plan:
    """The plan that takes the fewest cycles, by the figures above."""
    shape = Shape(rows, columns, depth, multiprocessors, (a_uneven, b_uneven), (a_turned, b_turned))
    if rows <= max(LOW) and not a_turned:
        return min(_thin(shape), key=lambda plan: plan.cycles)
    return min(
        [*_in_tiles(shape), *_in_pairs(shape), *_in_slices(shape)],
        key=lambda plan: (plan.cycles, plan.height * plan.width),
    )


def _in_tiles(shape: Shape) -> Iterator[Plan]:
    for copied in itertools.product(*((False, True) if uneven else (False,) for uneven in shape.uneven)):
        before = sum(
            COPY + size * shape.depth / COPIED for size, there in zip((shape.rows, shape.columns), copied) if there
        )
        for height, width in TILES:
            tiles, steps = shape.tiles(height, width), shape.steps
            step = shape.step(height, width, tiles / shape.multiprocessors, copied)
            whole, left = divmod(tiles, shape.multiprocessors)
            until = before + whole * (steps * step + TILE)
            blocks = min(tiles, shape.multiprocessors)
            yield Plan(shape.at_least(until + (left > 0) * (steps * step + TILE)), height, width, blocks, copied)
            share = max(-(-left * steps // shape.multiprocessors), -(-steps // MOST_PARTS))
            if left and share < steps:
                divided = until + share * step + TILE + DIVISION + PART * -(-steps // share)
                blocks = shape.multiprocessors
                yield Plan(shape.at_least(divided), height, width, blocks, copied, divided=left, share=share)


def _in_pairs(shape: Shape) -> Iterator[Plan]:
    room = shape.multiprocessors // PAIR
    for height, width in PAIRS if shape.uneven[1] and room else ():
        pairs = shape.tiles(PAIR * height, width)
        step = shape.step(height, width, pairs / room, sharing=PAIR)
        cycles, blocks = CLUSTER + -(-pairs // room) * (shape.steps * step + TILE), PAIR * min(pairs, room)
        yield Plan(shape.at_least(cycles), height, width, blocks, kind="pairs")


def _in_slices(shape: Shape) -> Iterator[Plan]:
    """All tiles at once."""
    for (height, width), slices in itertools.product(SLICED, SLICES):
        tiles = shape.tiles(height, width)
        fits = tiles * slices <= shape.multiprocessors - (LARGE_CLUSTERS if slices > 2 else 0)
        if fits and slices <= shape.steps and width % (16 * slices) == 0:
            blocks = tiles * slices
            step = shape.step(height, width, blocks / shape.multiprocessors)
            cycles = shape.at_least(-(-shape.steps // slices) * step + TILE)
            yield Plan(
                cycles + 2 * CLUSTER + GIVEN * height * width * (slices - 1) / slices,
                height,
                width,
                blocks,
                kind="slices",
                slices=slices,
            )


def _thin(shape: Shape) -> Iterator[Plan]:
    """Memory delivers what is asked for at the same time.  More blocks than multiprocessors disturb each other, so k is
    not divided for that.
    """
    height = min(height for height in LOW if height >= shape.rows)
    for slices in (1, *SLICES):
        blocks = shape.tiles(height, STRIP) * slices
        if slices == 1 or (blocks <= shape.multiprocessors and slices <= shape.steps):
            rounds = -(-blocks // (2 * shape.multiprocessors))
            cycles = _together(
                shape.memory(blocks * MOST_STAGES * STRIP * DEPTH * 2), rounds * -(-shape.steps // slices) * LOW_STEP
            )
            yield Plan(
                cycles + TILE + (slices > 1) * CLUSTER / 2 * slices, height, STRIP, blocks, kind="thin", slices=slices
            )


# ---- arrays ---------------------------------------------------------------------------------------------------------


def _argument(name: str, value: object, types: tuple[Scalar, ...], rank: int) -> Argument:
    """Arrays of 16-bit unsigned integers hold bits of bf16."""
    given = argument("gemm", name, value, (*types, U16), rank=rank, strided=True)
    return argument("gemm", name, value, types, rank=rank, type=BF16, strided=True) if given.type == U16 else given


@record
class Operand:
    """given: the array that was passed or, where `turned`, its transpose"""

    given: Argument
    turned: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.given.shape[::-1] if self.turned else self.given.shape

    @property
    def uneven(self) -> bool:
        """Whether it can be read where it lies, but rows begin in the middle of sectors."""
        row = self.given.shape[1] * self.given.type.bytes
        return _has_boxes(self.given) and (row % SECTOR > 0 or self.given.info.pointer % SECTOR > 0)

    def lies(self, copied: bool) -> bool:
        """Whether it is read where it lies: boxes can be made of it, and it is not to be copied."""
        return _has_boxes(self.given) and not copied

    def ready(self, copied: bool) -> object:
        """The array where it lies, or a copy."""
        if self.lies(copied):
            return self.given.array
        room, filled = _room(self.given), self.given.shape[1] if self.given.size else 0
        if filled:
            _copy(self.given.info.family, room[:, :filled], self.given.array)
        if filled < room.shape[1]:
            room[:, filled:] = 0
        return room


def _operand(name: str, value: object) -> Operand:
    given = _argument(name, value, TYPES, rank=2)
    if _has_boxes(given):
        return Operand(given, False)
    turned = Argument(given.array.T, classify(given.array.T), given.type)
    return (
        Operand(turned, True)
        if _has_boxes(turned) or (turned.info.contiguous and not given.info.contiguous)
        else Operand(given, False)
    )


def _bias(value: object, left: Argument, columns: int) -> Argument:
    given = _argument("bias", value, (left.type, F32), rank=1)
    same_place("gemm", left, "bias", given)
    if given.shape != (columns,):
        raise LaunchError("snap.lib.gemm", f"has {given.size} elements, and the product {columns} columns", "bias")
    if not given.info.contiguous:
        packed = given.new(given.shape)
        _copy(given.info.family, packed, given.array)
        return Argument(packed, classify(packed), given.type)
    return given


def _result(value: object, left: Argument, shape: tuple[int, int]) -> Argument:
    given = _argument("out", value, (left.type, F32), rank=2)
    same_place("gemm", left, "out", given)
    if given.shape != shape:
        raise LaunchError("snap.lib.gemm", f"has the shape {given.shape}, and the product {shape}", "out")
    if given.info.readonly:
        raise LaunchError("snap.lib.gemm", "is written, and the array is read-only", "out")
    return given


def _check_apart(written: Argument, *read: Argument | None) -> None:
    """The result does not lie where a, b or the bias, in this order, are read; None was copied."""
    for name, given in zip(("a", "b", "bias"), read):
        if given is not None and -given.info.nbytes < given.info.pointer - written.info.pointer < written.info.nbytes:
            raise LaunchError(
                "snap.lib.gemm",
                f"shares memory with `{name}`, which is read while it is written: the two may not overlap",
                "out",
            )


def _has_boxes(given: Argument) -> bool:
    row = given.shape[1] * given.type.bytes
    return given.info.contiguous and given.size > 0 and row % ROW == 0 and given.info.pointer % ROW == 0


def _room(given: Argument) -> object:
    """Room for the same shape, or a little more: rows of whole lines, and at least one of them."""
    rows, columns = given.shape
    step = LINE // given.type.bytes
    return given.new((max(rows, 1), max(-(-columns // step), 1) * step))


def _exchange(given: Argument, plan: Plan) -> tuple:
    return exchange(given, plan.exchanged, plan.blocks * 2 * plan.height if plan.divided else 0)


def _copy(family: str, target: object, source: object) -> None:
    if family == "torch":
        target, source = target.detach(), source.detach()
        if _has_words(target) and _has_words(source):
            target, source = (array.view(sys.modules["torch"].complex128) for array in (target, source))
        target.copy_(source)
    else:
        target[...] = source


def _has_words(array: object) -> bool:
    """Whether a matrix of torch can be seen as one of 16-byte words: then it is copied several times as fast."""
    if array.dim() != 2 or array.stride(1) != 1 or array.data_ptr() % ROW:
        return False
    return all(
        extent * array.element_size() % ROW == 0 for extent in (array.shape[1], array.stride(0), array.storage_offset())
    )
