"""The matrices that are multiplied: what fits, where they lie, copies of those that no kernel can read where they lie,
and launches of the kernel that most products share.

Input:      what a user passes to `gemm`, `gemm_tf32` or `sgemm`
Output:     `Argument`s, as they are or copied
Invariant:  boxes can be made of a matrix that lies row after row, with rows and an address of whole 16 bytes
Non-goals:  which of two ways is faster
"""

from __future__ import annotations

import sys
from typing import Any, cast

from snap._compiler.ir.types import BF16, F32, U16, Scalar
from snap.host.arguments.arrays import ArrayFamily, ArrayInfo, classify
from snap.host.errors import LaunchError
from snap.lib._calls.arrays import Argument, argument, check_sides, exchange, same_place
from snap.lib._calls.recorded import launch, step, view
from snap.lib._gemm.choice import Plan
from snap.lib._parallel.transposition import transpose

ROW = 16  # bytes, of which rows and addresses are multiples where boxes are copied
SECTOR = 32  # bytes: rows that do not begin at multiples of it are slow to load
LINE = 128  # bytes, of which the rows of copies are multiples


def matrix(function: str, name: str, value: object) -> Argument:
    given = argument(function, name, value, (F32,), rank=2, strided=True)
    check_sides(function, name, given)
    return given


def floats_of(function: str, name: str, value: object, types: tuple[Scalar, ...], rank: int) -> Argument:
    """Arrays of 16-bit unsigned integers hold bits of bf16."""
    given = argument(function, name, value, (*types, U16), rank=rank, strided=True)
    return argument(function, name, value, types, rank=rank, dtype=BF16, strided=True) if given.type == U16 else given


def bias_of(function: str, value: object, left: Argument, type: Scalar, columns: int) -> Argument:
    """One number for each column, of this type or f32."""
    given = floats_of(function, "bias", value, (type, F32), rank=1)
    same_place(function, left, "bias", given)
    if given.shape != (columns,):
        problem = f"has {given.size} elements, and the result {columns} columns"
        raise LaunchError(f"snap.lib.{function}", problem, "bias")
    return row_major(given)


def result_of(
    function: str, value: object, left: Argument, types: tuple[Scalar, ...], shape: tuple[int, ...]
) -> Argument:
    given = floats_of(function, "out", value, types, rank=len(shape))
    same_place(function, left, "out", given)
    if given.shape != shape:
        raise LaunchError(f"snap.lib.{function}", f"has the shape {given.shape}, and the result {shape}", "out")
    if given.info.readonly:
        raise LaunchError(f"snap.lib.{function}", "is written, and the array is read-only", "out")
    return given


def product_shape(function: str, left: Argument, right: Argument) -> tuple[int, int]:
    same_place(function, left, "b", right)
    check_depth(function, left.shape[1], *right.shape)
    return left.shape[0], right.shape[1]


def check_depth(function: str, depth: int, other: int, columns: int) -> None:
    """The second matrix has so many rows and columns."""
    if depth != other:
        turned = "; with its transpose, `b.T`, they would fit" if columns == depth else ""
        problem = f"has {other} rows, and the first matrix {depth} columns{turned}"
        raise LaunchError(f"snap.lib.{function}", problem, "b")


def of_type(given: Argument, array: Any) -> Argument:
    return Argument(array, cast(ArrayInfo, classify(array)), given.type)


def flipped(given: Argument) -> Argument:
    """The transpose, or the transposes of several matrices, where they lie."""
    return of_type(given, turned_array(given.array))


def row_major(given: Argument) -> Argument:
    """The array, or a copy of it that lies row after row."""
    if given.info.contiguous:
        return given
    room = given.new(given.shape)
    copy(given.info.family, room, given.array)
    return of_type(given, room)


def in_rows(given: Argument) -> Argument:
    """The matrix, or a copy of it that lies row after row: faster than `row_major` where its transpose does."""
    turned = flipped(given)
    if given.info.contiguous or not turned.info.contiguous:
        return row_major(given)
    return of_type(given, transpose(turned.array))


def has_boxes(given: Argument) -> bool:
    row = given.shape[-1] * given.type.bytes
    return given.info.contiguous and given.size > 0 and row % ROW == 0 and given.info.pointer % ROW == 0


def room_for_boxes(given: Argument, shape: tuple[int, ...], zero: bool = False) -> Any:
    """Room for this shape, or a little more: rows of whole lines, and at least one of them."""
    step = LINE // given.type.bytes
    return given.new((*(max(side, 1) for side in shape[:-1]), max(-(-shape[-1] // step), 1) * step), zero=zero)


def in_boxes(given: Argument) -> Argument:
    """A copy of the matrix, its rows filled up with zeros."""
    room, filled = room_for_boxes(given, given.shape), given.shape[-1] if given.size else 0
    if filled:
        copy(given.info.family, columns(room, filled), given.array)
    if filled < room.shape[-1]:
        step(_zeroed, room, filled)
    return of_type(given, room)


def turned_array(array: Any) -> Any:
    """The transpose, where it lies."""
    return step(_turned, array)


@view
def _turned(array: Any) -> Any:
    return array.T if array.ndim == 2 else array.swapaxes(-1, -2)


def columns(array: Any, count: int) -> Any:
    """The first ones, where they lie."""
    return step(_columns, array, count)


@view
def _columns(array: Any, count: int) -> Any:
    return array[..., :count]


def _zeroed(array: Any, first: int) -> None:
    array[..., first:] = 0


def copy(family: ArrayFamily, target: Any, source: Any) -> None:
    step(_copy, family, target, source)


def _copy(family: ArrayFamily, target: Any, source: Any) -> None:
    if family is ArrayFamily.TORCH:
        target, source = target.detach(), source.detach()
        if _has_words(target) and _has_words(source):
            target, source = (array.view(sys.modules["torch"].complex128) for array in (target, source))
        target.copy_(source)
    else:
        target[...] = source


def _has_words(array: Any) -> bool:
    """Decide whether a matrix of torch can be seen as one of 16-byte words: it is then copied several times as fast."""
    if array.dim() != 2 or array.stride(1) != 1 or array.data_ptr() % ROW:
        return False
    return all(
        extent * array.element_size() % ROW == 0 for extent in (array.shape[1], array.stride(0), array.storage_offset())
    )


# ---- launches -------------------------------------------------------------------------------------------------------


def multiply(
    run: Any,
    plan: Plan,
    given: Argument,
    A: Any,
    B: Any,
    C: Any,
    extents: tuple[int, int, int],
    bias: Any = None,
    scales: tuple[Any, ...] = (),
    ends: Any = None,
    count: int = 1,
) -> None:
    """Launch the kernel of kernels.py; extents: M, N and K; given: where sums are exchanged.  A stands for arrays
    that the kernel does not use.
    """
    launch(
        run,
        plan.blocks,
        A,
        B,
        C,
        A if bias is None else bias,
        *A.shape[-2:],
        *B.shape[-2:],
        C.shape[-1],
        *extents[:2],
        max(extents[2], 1),
        *exchange(given, *plan.exchanged),
        plan.divided,
        plan.share,
        plan.slices,
        *(scales or (A, A)),
        A if ends is None else ends,
        count,
    )
