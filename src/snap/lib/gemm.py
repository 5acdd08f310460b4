"""`snap.lib.gemm`: activation(a @ b + bias) on the tensor cores.

Input:      a of M x K, b of K x N, f16 or bf16, in any strides; a bias of N, the name of an activation
Output:     M x N, in the type of a or, where `out` is so, in f32; sums are f32
Invariant:  a matrix or its transpose that is row-major, with rows and an address of whole 16 bytes, is read where it lies; any other is copied first,
            its rows filled up with zeros, and so is one whose rows are not whole sectors where that is faster.  A result that cannot be written
            where it belongs is copied there.  The same matrices give the same bits
Non-goals:  batches; GPUs other than Hopper's
"""

from __future__ import annotations

import functools
import itertools
import math
import sys

from snap.ir.record import record
from snap.ir.types import BF16, F16, F32, I32, U16, Scalar
from snap.lib.arrays import Argument, argument, same_place
from snap.lib.gemm_clusters import PAIR, cluster_kernel
from snap.lib.gemm_kernels import ACTIVATIONS, DEPTH, gemm_kernel
from snap.runtime.arrays import classify
from snap.runtime.errors import LaunchError

TYPES = (BF16, F16)
ROW = 16  # bytes, of which rows and addresses are multiples where boxes are copied
SECTOR = 32  # bytes: rows that do not begin at multiples of it are slow to load
LINE = 128  # bytes, of which the rows of copies are multiples
TILES = ((128, 256), (128, 192), (128, 128), (128, 64), (64, 256), (64, 192), (64, 128), (64, 64))
PAIRS = ((128, 256), (128, 128), (64, 128))  # tiles of clusters
BAND_ROWS = 1024  # of the result: the height of the bands in which tiles are taken
MOST_PARTS = 8  # of a tile that is divided


def gemm(a, b, out=None, bias=None, activation=None):
    """`a @ b`, plus a bias for each column, then "relu", "gelu" (with erf) or "silu".  Bits of bf16 may come in NumPy's uint16."""
    if activation not in ACTIVATIONS:
        raise LaunchError("snap.lib.gemm", f"is one of {', '.join(repr(name) for name in ACTIVATIONS)}, not {activation!r}", "activation")
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
    plan = planned(rows, columns, depth, left.given.multiprocessors(), left.uneven, right.uneven)
    if _has_boxes(written):
        _check_apart(written, left.given if left.lies(plan.copied[0]) else None, right.given if right.lies(plan.copied[1]) else None, added)
    A, B = left.ready(plan.copied[0]), right.ready(plan.copied[1])
    C = written.array if _has_boxes(written) else _room(written)
    kinds = (left.given.type, written.type, left.turned, right.turned, plan.height, plan.width, plan.band, added and added.type, activation)
    arguments = (A, B, C, added.array if added else A, *A.shape, *B.shape, C.shape[1], rows, columns, max(depth, 1))
    if plan.paired:
        cluster_kernel(*kinds)[plan.blocks](*arguments)
    else:
        gemm_kernel(*kinds, plan.divided > 0)[plan.blocks](*arguments, *_exchange(left.given, plan), plan.divided, plan.share)
    if C is not written.array:
        _copy(written.info.family, written.array, C[:, :columns])
    return written.array


# ---- who computes what -------------------------------------------------------------------------------------------------------------------

# Cycles of an H200's multiprocessor, as measured.
PRODUCTS, ISSUE = 30, 35  # a step of 64 along k takes height * width / PRODUCTS + ISSUE: as long as without any loads
EVEN, UNEVEN = 2.1, 4.8  # to load a row of 64 elements, when all multiprocessors do so; UNEVEN where it does not begin at a sector
MULTICAST = 1.1  # loads of a cluster take so much longer than their rows
TILE = 5000  # a tile besides its steps: filling the pipeline, writing the result
CLUSTER = 1300  # blocks of a cluster wait for each other when they begin and end
DIVISION, PART = 25000, 5000  # the last round's tiles divided; each part that is added
COPY, COPIED = 6000, 500  # to begin a copy; elements that are copied in a cycle


@record
class Plan:
    """height, width: of a tile; copied: which operands are copied first; paired: blocks form clusters; divided, share: see gemm_kernels.py"""

    cycles: float
    height: int
    width: int
    blocks: int
    copied: tuple[bool, bool] = (False, False)
    paired: bool = False
    divided: int = 0
    share: int = 1

    @property
    def band(self) -> int:
        return BAND_ROWS // (self.height * (PAIR if self.paired else 1))


# Each multiprocessor runs one block at a time, so what counts is how long the busiest takes.  Measured on an H200:
# - Large tiles win where there are enough of them.  128 x 256 multiplies as fast as without any loads, so clusters, which load less, win nothing.
# - The last round is seldom full: 8192^3 has 15.5 rounds of tiles.  Divided along k among all, it takes half as long: 1.7% less time at 8192^3.
#   Exchanging sums takes some 15 us, so at 4096^3, where an eighth of a round would be saved, dividing loses 6%.
# - Rows that begin in the middle of a sector take more than twice as long to load, and clusters ask for fewer: 1000^3 takes 10% less time with them.
#   The larger the product, the cheaper a copy of B with whole lines: 5000^3 takes 33% less time with a copy, and 25% less with clusters.
@functools.lru_cache(4096)
def planned(rows: int, columns: int, depth: int, multiprocessors: int, a_uneven: bool = False, b_uneven: bool = False) -> Plan:
    """The plan that takes the fewest cycles, by the figures above."""
    steps = -(-max(depth, 1) // DEPTH)
    found = []
    for copies in itertools.product(*((False, True) if uneven else (False,) for uneven in (a_uneven, b_uneven))):
        a, b = (UNEVEN if uneven and not copied else EVEN for uneven, copied in zip((a_uneven, b_uneven), copies))
        before = sum(COPY + size * depth / COPIED for size, copied in zip((rows, columns), copies) if copied)
        for height, width in TILES:
            tiles = -(-rows // height) * -(-columns // width)
            step = max(_products(height, width), (height * a + width * b) * math.sqrt(min(1, tiles / multiprocessors)))
            whole, left = divmod(tiles, multiprocessors)
            until = before + whole * (steps * step + TILE)
            found.append(Plan(until + (left > 0) * (steps * step + TILE), height, width, min(tiles, multiprocessors), copies))
            share = max(-(-left * steps // multiprocessors), -(-steps // MOST_PARTS))
            if left and share < steps:
                divided = until + share * step + TILE + DIVISION + PART * -(-steps // share)
                found.append(Plan(divided, height, width, multiprocessors, copies, divided=left, share=share))
    for height, width in PAIRS if b_uneven and multiprocessors >= PAIR else ():
        pairs, room = -(-rows // (PAIR * height)) * -(-columns // width), multiprocessors // PAIR
        asked_for = height * (UNEVEN if a_uneven else EVEN) + width * UNEVEN / PAIR
        step = max(_products(height, width), MULTICAST * asked_for * math.sqrt(min(1, pairs / room)))
        found.append(Plan(CLUSTER + -(-pairs // room) * (steps * step + TILE), height, width, PAIR * min(pairs, room), paired=True))
    return min(found, key=lambda plan: plan.cycles)


def _products(height: int, width: int) -> float:
    return height * width / PRODUCTS + ISSUE


# ---- arrays ------------------------------------------------------------------------------------------------------------------------------


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
    return Operand(turned, True) if _has_boxes(turned) or (turned.info.contiguous and not given.info.contiguous) else Operand(given, False)


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
            raise LaunchError("snap.lib.gemm", f"shares memory with `{name}`, which is read while it is written: the two may not overlap", "out")


def _has_boxes(given: Argument) -> bool:
    row = given.shape[1] * given.type.bytes
    return given.info.contiguous and given.size > 0 and row % ROW == 0 and given.info.pointer % ROW == 0


def _room(given: Argument) -> object:
    """Room for the same shape, or a little more: rows of whole lines, and at least one of them."""
    rows, columns = given.shape
    step = LINE // given.type.bytes
    return given.new((max(rows, 1), max(-(-columns // step), 1) * step))


_UNUSED: dict[tuple, tuple] = {}  # by library and device


def _exchange(given: Argument, plan: Plan) -> tuple:
    """Where blocks leave sums for each other, and flags of their threads; what stands for them where nothing is divided."""
    if plan.divided:
        return given.new((plan.blocks * plan.height * plan.width,), F32), given.new((plan.blocks * 2 * plan.height,), I32, zero=True)
    key = given.info.family, given.info.device
    if key not in _UNUSED:
        _UNUSED[key] = given.new((1,), F32), given.new((1,), I32)
    return _UNUSED[key]


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
    return all(extent * array.element_size() % ROW == 0 for extent in (array.shape[1], array.stride(0), array.storage_offset()))
