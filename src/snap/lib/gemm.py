"""`snap.lib.gemm`: activation(a @ b + bias) on the tensor cores.

Input:      a of M x K, b of K x N, f16 or bf16, in any strides; a bias of N, the name of an activation
Output:     M x N, in the type of a or, where `out` is so, in f32; sums are f32
Invariant:  a matrix or its transpose that is row-major, with rows and an address of whole 16 bytes, is read where it lies; any other is copied first,
            its rows filled up with zeros.  A result that cannot be written where it belongs is copied there
Non-goals:  batches; GPUs other than Hopper's; splitting K among blocks
"""

from __future__ import annotations

from snap.ir.record import record
from snap.ir.types import BF16, F16, F32, U16, Scalar
from snap.lib.arrays import Argument, argument, same_place
from snap.lib.gemm_kernels import ACTIVATIONS, DEPTH, gemm_kernel
from snap.runtime.arrays import classify
from snap.runtime.errors import LaunchError

TYPES = (BF16, F16)
ROW = 16  # bytes, of which rows and addresses are multiples where boxes are copied
TILES = ((128, 256), (128, 128), (128, 64), (64, 256), (64, 128), (64, 64))
BAND_ROWS = 1024  # of the result: the height of the bands in which tiles are taken
LOADED = 2.3  # cycles that a row of 64 elements takes to load, of either operand, when all multiprocessors do so
TILE_CYCLES = 5000  # that a tile takes besides its products: filling the pipeline, writing the result


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
    A, B = left.ready(), right.ready()
    C = written.array if _has_boxes(written) else _room(written)
    height, width, blocks = tiling(rows, columns, depth, left.given.multiprocessors())
    run = gemm_kernel(left.given.type, written.type, left.turned, right.turned, height, width, BAND_ROWS // height, added and added.type, activation)
    run[blocks](A, B, C, added.array if added else A, *A.shape, *B.shape, C.shape[1], rows, columns, max(depth, 1))
    if C is not written.array:
        _copy(written.info.family, written.array, C[:, :columns])
    return written.array


def tiling(rows: int, columns: int, depth: int, multiprocessors: int) -> tuple[int, int, int]:
    """Rows and columns of a tile, and blocks.  Each multiprocessor runs one block at a time, so what counts is how long the busiest takes."""

    def tiles(size: tuple[int, int]) -> int:
        return -(-rows // size[0]) * -(-columns // size[1])

    def cycles(size: tuple[int, int]) -> float:
        height, width = size
        rounds = -(-tiles(size) // multiprocessors)
        busy = min(1.0, tiles(size) / multiprocessors)
        step = max(height * width / 32, LOADED * (height + width) * busy)
        return rounds * (step * -(-depth // DEPTH) + TILE_CYCLES)

    height, width = min(TILES, key=cycles)
    return height, width, min(tiles((height, width)), multiprocessors)


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

    def ready(self) -> object:
        """The array if boxes can be made of it, else a copy."""
        if _has_boxes(self.given):
            return self.given.array
        room = _room(self.given)
        if self.given.size:
            _copy(self.given.info.family, room[:, :self.given.shape[1]], self.given.array)
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


def _has_boxes(given: Argument) -> bool:
    row = given.shape[1] * given.type.bytes
    return given.info.contiguous and given.size > 0 and row % ROW == 0 and given.info.pointer % ROW == 0


def _room(given: Argument) -> object:
    """Zeros of the same shape, or a little more: rows of whole 16 bytes, and at least one of them."""
    rows, columns = given.shape
    step = ROW // given.type.bytes
    return given.new((max(rows, 1), max(-(-columns // step), 1) * step), zero=True)


def _copy(family: str, target: object, source: object) -> None:
    if family == "torch":
        target.detach().copy_(source.detach())
    else:
        target[...] = source
