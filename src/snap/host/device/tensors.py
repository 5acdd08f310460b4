"""Tensor maps: what the GPU's copy engine knows of an array that a kernel moves boxes of.

Input:      `TensorMap`s of a compiled module (parameter, element type, box, swizzle), an array's address, and its
            extents in this launch
Output:     128 bytes a map, which a launch passes by value
Invariant:  what the engine cannot address is refused with the parameter's name, before the launch; a map that was made
            is not made again
Non-goals:  arrays that are not contiguous in row-major order (validate.py refuses them)

A map depends on the address and the extents alone, so it stays right when the memory behind it is given back and used
again.
"""

from __future__ import annotations

import math
import threading

from snap._compiler.ir.hardware import (
    ARRAY_EXTENT,
    ARRAY_STRIDE,
    BOX_BYTES,
    BOX_EXTENT,
    BOX_RANK,
    CACHE_LINE,
    SECTOR,
    SWIZZLES,
)
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64
from snap.host.device.contexts import OnDevice
from snap.host.errors import InternalError, LaunchError
from snap.record import record

_MOST_KEPT = 256

# CUtensorMapDataType.  Loads and stores move bits; the type says how a reduction adds, and there are none of 8- and
# 16-bit integers.
_KINDS = {BOOL: 0, I8: 0, U8: 0, I16: 1, U16: 1, U32: 2, I32: 3, U64: 4, I64: 5, F16: 6, F32: 7, F64: 8, BF16: 9}
_TF32 = 11  # f32 in memory, rounded on its way
# CUtensorMapL2promotion
_PROMOTE_128, _PROMOTE_256 = 2, 3


@record
class Encoding:
    """What cuTensorMapEncodeTiled is told besides the address; innermost dimension first."""

    kind: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    promotion: int


def check_box(kernel: str, parameter: str, tensor) -> None:
    """What holds for every launch, and is the compiler's to get right."""
    inner = tensor.box[-1] * tensor.elem.bytes
    fits = (
        1 <= len(tensor.box) <= BOX_RANK
        and all(1 <= extent <= BOX_EXTENT for extent in tensor.box)
        and inner % BOX_BYTES == 0
    )
    if (
        not fits
        or tensor.swizzle not in SWIZZLES
        or tensor.elem not in _KINDS
        or (tensor.swizzle and inner > tensor.swizzle)
        or (tensor.tf32 and tensor.elem != F32)
    ):
        raise InternalError(
            f"`{kernel}` issues TMA copies of `{parameter}` that no tensor map describes ({tensor}); this is a bug in "
            "Snap, please report it"
        )


def encoding(kernel: str, parameter: str, tensor, pointer: int, shape: tuple[int, ...]) -> Encoding:
    def refuse(problem: str) -> LaunchError:
        return LaunchError(kernel, f"the kernel copies boxes of it by TMA, {problem}", parameter)

    size = tensor.elem.bytes
    if len(shape) != len(tensor.box):
        raise InternalError(
            f"`{kernel}` copies TMA boxes of {len(tensor.box)} dimensions of `{parameter}`, which has {len(shape)}"
        )
    if pointer % BOX_BYTES:
        raise refuse(
            f"so its address must be a multiple of {BOX_BYTES} bytes, which the array's is not; a slice may start"
            " anywhere, a copy of it is aligned"
        )
    if min(shape) < 1:
        raise refuse(
            f"but its shape is {shape} for these arguments: nothing to copy; skip the launch for an empty array"
        )
    if max(shape) > ARRAY_EXTENT:
        raise refuse(
            f"but its shape is {shape} for these arguments; no dimension may be above 2**32: declare it with more,"
            " smaller dimensions"
        )
    strides = tuple(math.prod(shape[axis + 1 :]) * size for axis in range(len(shape) - 1))
    if strides and strides[-1] % BOX_BYTES:
        step = BOX_BYTES // math.gcd(BOX_BYTES, size)
        padded = shape[-1] + -shape[-1] % step
        raise refuse(
            f"so its rows must be a multiple of {BOX_BYTES} bytes: a row has {shape[-1]} elements of {size},"
            f" {strides[-1]} bytes; pad the array's rows to {padded} elements (a multiple of {step})"
        )
    if strides and max(strides) >= ARRAY_STRIDE:
        raise refuse(
            f"but its shape is {shape} for these arguments; the stride of a dimension must be less than"
            " 2**40 bytes: pass the array in parts"
        )
    return Encoding(
        _TF32 if tensor.tf32 else _KINDS[tensor.elem],
        shape[::-1],
        strides[::-1],
        tensor.box[::-1],
        SWIZZLES[tensor.swizzle],
        _promotion(shape[-1] * size, tensor.box[-1] * size, len(shape)),
    )


def _promotion(row: int, inner: int, rank: int) -> int:
    """How much the L2 cache fetches at a time.  A box that takes half of 256 bytes is mostly followed by the one that
    takes the other half. Rows that begin in the middle of sectors are better off with less: a product of 3080 x 3080
    matrices of 16 bits takes 9 to 12% less time.
    """
    begins_at_sectors = rank == 1 or row % SECTOR == 0
    return _PROMOTE_256 if row >= 2 * CACHE_LINE and inner >= CACHE_LINE and begins_at_sectors else _PROMOTE_128


class TensorMaps(dict):
    """(address, extents) -> the map's bytes, for one tensor map of one kernel.  The newest are kept: a warm launch
    costs one lookup.
    """

    def __init__(self, driver: OnDevice, kernel: str, parameter: str, tensor):
        super().__init__()
        check_box(kernel, parameter, tensor)
        self._driver, self._kernel, self._parameter, self._tensor = driver, kernel, parameter, tensor
        self._lock = threading.Lock()

    def __missing__(self, key: tuple[int, tuple[int, ...]]) -> bytes:
        pointer, shape = key
        told = encoding(self._kernel, self._parameter, self._tensor, pointer, shape)
        made = self._driver.tensor_map(
            told.kind, pointer, told.extents, told.strides, told.box, told.swizzle, told.promotion
        )
        with self._lock:
            while len(self) >= _MOST_KEPT:
                del self[next(iter(self))]
            self[key] = made
        return made
