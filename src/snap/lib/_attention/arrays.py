"""The arrays of attention: which fit, where their heads lie, and room for results.

Input:      what a user passes to `attention` and `attention_gradient`
Output:     `Argument`s, checked; `Laid`, arrays of three dimensions as the kernels read and write them
Invariant:  an array whose heads lie one after another, or in rows of whole 64 columns with those of other heads, is
            read and written where it lies; any other is copied.  Results lie as `swaps` says, whatever is copied
Non-goals:  what is launched
"""

from __future__ import annotations

import math
from typing import Any

from snap._compiler.ir.types import BF16, F16, F32, U16
from snap.host.arguments.arrays import ArrayFamily
from snap.host.errors import LaunchError
from snap.lib._attention.kernels import ROWS
from snap.lib._calls.arrays import Argument, argument, number, same_place, told
from snap.lib._calls.recorded import step, view
from snap.lib._gemm.arrays import ROW, copy, of_type
from snap.record import record

TYPES = (BF16, F16)
PANEL = 64  # columns that are copied and multiplied at a time
LARGEST = 256  # columns of a head
ONE_PASS = 128  # those for whose gradients one pass has the registers


@record
class Laid:
    """An array of three dimensions in which a head is found: place `batch * places + head * step` of the first, columns
    `column + head * wide` of the last.  size: of a head, filled up to whole 16 bytes where it was copied.
    """

    array: Any
    shape: tuple[int, int, int]
    steps: tuple[int, int, int, int]
    size: int
    copied: bool = False

    @property
    def extents(self) -> tuple[int, int]:
        return self.shape[0], self.shape[2]


def laid(given: Argument) -> Laid:
    return in_place(given) or copied(given)


def in_place(given: Argument) -> Laid | None:
    """None where no kernel can read it so, or write it."""
    batch, heads, rows, size = given.shape
    if size * given.type.bytes % ROW or given.info.pointer % ROW:
        return None
    if given.info.contiguous:
        array = step(_reshaped, given.array, (batch * heads, rows, size))
        return Laid(array, (batch * heads, rows, size), (heads, 1, 0, 0), size)
    if size % PANEL:
        return None
    side_by_side = of_type(given, step(swapped, given.array))
    if side_by_side.info.contiguous:
        array = step(_reshaped, side_by_side.array, (batch, rows, heads * size))
        return Laid(array, (batch, rows, heads * size), (1, 0, 0, size), size)
    pitch = _pitch(given)
    if pitch is None:
        return None
    array, column = step(_whole_rows, given.array, pitch), given.array.storage_offset() % pitch
    return Laid(array, (batch, rows, pitch), (1, 0, column, given.array.stride(1)), size)


def copied(given: Argument) -> Laid:
    made = room(given)
    inside = step(_reshaped, made.array, (*given.shape[:3], made.size))
    copy(given.info.family, step(_first, inside, given.shape[3]), given.array)
    return made


def room(given: Argument) -> Laid:
    """For an array of this shape: heads one after another, filled up with zeros to whole 16 bytes a row."""
    batch, heads, rows, size = given.shape
    filled = -(-size * given.type.bytes // ROW) * ROW // given.type.bytes
    array = given.new((batch * heads, rows, filled), zero=filled != size)
    return Laid(array, (batch * heads, rows, filled), (heads, 1, 0, 0), filled, copied=True)


def take(target: Argument, source: Laid) -> None:
    """Copy what was written in `room` to where it belongs."""
    if source.copied:
        batch, heads, rows, size = target.shape
        made = step(_reshaped, source.array, (batch, heads, rows, source.size))
        copy(target.info.family, target.array, step(_first, made, size))


def _pitch(given: Argument) -> int | None:
    """The length of the rows of which a tensor of torch shows some columns, as of queries, keys and values that were
    computed side by side; None where it shows something else.
    """
    if given.info.family is not ArrayFamily.TORCH:
        return None
    (batch, heads, rows, size), tensor = given.shape, given.array
    of_batch, of_head, pitch, one = tensor.stride()
    start = tensor.storage_offset()
    column, bytes = start % pitch if pitch else 0, given.type.bytes
    fits = start - column + batch * rows * pitch <= tensor.untyped_storage().nbytes() // bytes
    rows_of_one = one == 1 and of_head >= size and (batch == 1 or of_batch == rows * pitch)
    inside = pitch > 0 and column + (heads - 1) * of_head + size <= pitch
    aligned = pitch * bytes % ROW == 0 and column * bytes % ROW == 0 and of_head * bytes % ROW == 0
    return pitch if rows_of_one and inside and fits and aligned else None


@view
def _whole_rows(tensor: Any, pitch: int) -> Any:
    batch, _, rows, _ = tensor.shape
    start = tensor.storage_offset()
    return tensor.as_strided((batch, rows, pitch), (rows * pitch, pitch, 1), start - start % pitch)


# ---- results --------------------------------------------------------------------------------------------------------


def swaps(strides: tuple[int, ...], contiguous: bool) -> bool:
    """Decide whether the results for an array lie as (batch, length, heads, size). They do if its heads lie within a
    row, as after a product that computes all of them: the next product can then read them without a copy.
    """
    return not contiguous and strides[1] < strides[2]


def _swaps(given: Argument) -> bool:
    array = given.array
    return swaps(array.stride() if given.info.family is ArrayFamily.TORCH else array.strides, given.info.contiguous)


def result(given: Argument) -> Any:
    """An array like this one."""
    batch, heads, rows, size = given.shape
    if _swaps(given):
        return step(swapped, given.new((batch, rows, heads, size)))
    return given.new(given.shape)


def share_memory(first: Any, second: Any) -> bool:
    """Decide whether two tensors of torch show the same storage, which a call's signature does not say."""
    storages = [getattr(x, "untyped_storage", None) for x in (first, second)]
    return None not in storages and storages[0]().data_ptr() == storages[1]().data_ptr()  # type: ignore[misc]


def two_written(first: Argument, second: Argument, shares: bool) -> tuple[Laid, Laid, bool]:
    """Find where a kernel writes two arrays, and whether they are columns of one array."""
    one, other = in_place(first), in_place(second)
    if shares and one is not None and other is not None and not first.info.contiguous:
        begins = [x.array.storage_offset() // x.array.stride(2) for x in (first, second)]
        if one.shape == other.shape and begins[0] == begins[1] and _apart(one, other, first.shape[1]):
            return one, other, True
        one = other = None  # rows of which both have some
    return one or room(first), other or room(second), False


def _apart(one: Laid, other: Laid, heads: int) -> bool:
    """Decide whether heads of two arrays have columns of their own: all of one first, or one of each in turn."""
    (_, _, begin, wide), (_, _, second, pitch), size = one.steps, other.steps, one.size
    if second >= begin + (heads - 1) * wide + size or begin >= second + (heads - 1) * pitch + size:
        return True
    return wide == pitch and size <= abs(second - begin) <= wide - size


@view
def _reshaped(array: Any, shape: tuple[int, ...]) -> Any:
    return array.reshape(shape)


@view
def swapped(array: Any) -> Any:
    return array.swapaxes(1, 2)


@view
def _first(array: Any, size: int) -> Any:
    return array[..., :size]


# ---- what does not fit ----------------------------------------------------------------------------------------------


def array(name: str, value: object, types: tuple = TYPES) -> Argument:
    given = argument("attention", name, value, (*types, U16), rank=4, strided=True)
    return argument("attention", name, value, types, rank=4, dtype=BF16, strided=True) if given.type == U16 else given


def check_shapes(queries: Argument, keys: Argument, values: Argument) -> tuple[int, int, int, int]:
    def refuse(name: str, problem: str) -> LaunchError:
        return LaunchError("snap.lib.attention", problem, name)

    batch, heads, rows, size = queries.shape
    for name, other in (("k", keys), ("v", values)):
        same_place("attention", queries, name, other)
        if other.type != queries.type:
            raise refuse(name, f"holds {other.type}, the queries {queries.type}")
        if other.shape[0] != batch or other.shape[3] != size:
            which = [word for word, at in (("batch", 0), ("size of heads", 3)) if other.shape[at] != queries.shape[at]]
            differ = f"{' and '.join(which)} differ{'s' * (len(which) == 1)}"
            raise refuse(name, f"has the shape {other.shape}, the queries {queries.shape}: the {differ}")
    if heads and (keys.shape[1] == 0 or heads % keys.shape[1]):
        raise refuse("k", f"has {keys.shape[1]} heads, which do not divide the queries' {heads} among them")
    if values.shape != keys.shape:
        raise refuse("v", f"has the shape {values.shape}, the keys {keys.shape}")
    if not 0 < size <= LARGEST:
        raise refuse("q", f"has heads of {size} columns; they have from 1 to {LARGEST}")
    if max(rows, keys.shape[2]) >= 2**30 or batch * heads * -(-rows // ROWS) >= 2**31:
        raise refuse("q", f"has the shape {queries.shape}, which is too large")
    return batch, heads, rows, size


def given_like(
    value: object, queries: Argument, shape: tuple[int, ...], name: str = "out", is_written: bool = True
) -> Argument:
    given = array(name, value, (queries.type,))
    same_place("attention", queries, name, given)
    if given.shape != shape:
        raise LaunchError("snap.lib.attention", f"has the shape {given.shape}, and the result {shape}", name)
    if is_written and given.info.readonly:
        raise LaunchError("snap.lib.attention", "is written, and the array is read-only", name)
    return given


def checked_scale(scale: object, size: int) -> float:
    found = size**-0.5 if scale is None else number("attention", "scale", scale, F32)
    if not 0 < found < math.inf:
        raise LaunchError("snap.lib.attention", f"is a positive number, not {scale!r}", "scale")
    return found


def check_masks(causal: object, window: object) -> None:
    if type(causal) is not bool:
        raise LaunchError("snap.lib.attention", f"is True or False, not {told(causal)}", "causal")
    if window is not None and (type(window) is not int or not 0 <= window < 2**30):
        raise LaunchError(
            "snap.lib.attention", f"is a number of keys, from 0 on, or None, not {told(window)}", "window"
        )
