"""`snap.lib.gemm_fp8`: a product of matrices of 8-bit floats, with scales, on the tensor cores.

Input:      a of M x K, b of K x N, each of e4m3 or e5m2: torch's and ml_dtypes' types, or their bits in bytes; scales
            of f32, one for each matrix, or one for each row of a and each column of b; a bias of N, the name of an
            activation
Output:     M x N, in bf16, f16 or f32: activation((a @ b) * scales + bias)
Invariant:  the tensor cores read 8-bit floats along k alone: a row-major a, and a b that is the transpose of a
            row-major matrix, with rows and an address of whole 16 bytes, are read where they lie; any other is copied
            first.  The same matrices give the same bits
Non-goals:  GPUs other than Hopper's; gradients; choosing scales

The tensor cores add products of 8-bit floats with some 14 bits.  Long sums lose digits by that, so the sums of each 128
products are added in f32 (fp8_kernel.py), unless the caller says that it need not be so (`fast=True`).
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from snap._compiler.ir.types import BF16, F32, U8, U16
from snap.host.arguments.arrays import ArrayFamily
from snap.host.errors import LaunchError
from snap.lib._calls.arrays import Argument, argument, check_apart, check_choice, check_sides, same_place
from snap.lib._calls.public_types import Activation, ArrayT, EightBitType, FloatType
from snap.lib._calls.recorded import launch, recorded, step, view
from snap.lib._calls.renamed import renamed
from snap.lib._gemm.arrays import (
    bias_of,
    check_depth,
    copy,
    flipped,
    has_boxes,
    in_boxes,
    in_rows,
    multiply,
    of_type,
    result_of,
    room_for_boxes,
    row_major,
)
from snap.lib._gemm.arrays import columns as first_columns
from snap.lib._gemm.body import PLAIN, Epilogue
from snap.lib._gemm.choice import BYTES, BYTES_IN_HALVES, BYTES_PROMOTED, EVEN, By, Plan, Product, best, candidates
from snap.lib._gemm.fp8_kernel import halves_kernel, promoted_kernel
from snap.lib._gemm.kernels import gemm_kernel
from snap.lib._gemm.parts import ACTIVATIONS, Scaling
from snap.lib._layers.layer_arrays import STORED, stored
from snap.lib._torch.derivatives import refuse_unseen
from snap.surface import dtype_word

TYPES = ("e4m3", "e5m2")
HELD = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}  # by the array's own word
BAND = 2048  # rows of the result: the height of the bands in which tiles are taken


@recorded
@renamed(out_type="out_dtype", a_type="a_dtype", b_type="b_dtype")
def gemm_fp8(
    a: ArrayT,
    b: ArrayT,
    scale_a: ArrayT | None = None,
    scale_b: ArrayT | None = None,
    out: ArrayT | None = None,
    bias: ArrayT | None = None,
    activation: Activation | None = None,
    out_dtype: FloatType = "bf16",
    fast: bool = False,
    a_dtype: EightBitType | None = None,
    b_dtype: EightBitType | None = None,
) -> ArrayT:
    """Compute `(a @ b) * scale_a * scale_b`, plus a bias for each column, then "relu", "gelu" or "silu". Scales are one
    f32 each, or one for each row of a and each column of b. a_dtype, b_dtype: the type of bits, by default "e4m3".
    """
    refuse_unseen("gemm_fp8", a=a, b=b, scale_a=scale_a, scale_b=scale_b, bias=bias)
    check_choice("gemm_fp8", "activation", activation, ACTIVATIONS)
    result_type = stored("gemm_fp8", "out_dtype", out_dtype, BF16)
    if type(fast) is not bool:
        raise LaunchError("snap.lib.gemm_fp8", f"is True or False, not {fast!r}", "fast")
    (left, a_kind), (right, b_kind) = _operand("a", a, a_dtype), _operand("b", b, b_dtype)
    same_place("gemm_fp8", left, "b", right)
    (rows, depth), (other, columns) = left.shape, right.shape
    check_depth("gemm_fp8", depth, other, columns)
    scaled, scales = _scales(left, scale_a, scale_b, rows, columns)
    added = None if bias is None else bias_of("gemm_fp8", bias, left, result_type, columns)
    room: Any = out
    if out is None:
        bits = result_type == BF16 and left.info.family is not ArrayFamily.TORCH  # the others have no such type
        room = left.new((rows, columns), U16 if bits else result_type)
    written = result_of("gemm_fp8", room, left, STORED, (rows, columns))
    if written.size == 0:
        return written.array
    if has_boxes(written):
        check_apart("gemm_fp8", written, {"a": left, "b": right, "bias": added, **scales})
    A, B = _along(left), _along(flipped(right))
    C = written.array if has_boxes(written) else room_for_boxes(written, written.shape)
    plan = planned(Product(rows, columns, depth, left.multiprocessors(), EVEN, EVEN), fast)
    kinds, after = (a_kind, b_kind), Epilogue(added.type if added else None, activation, scaled)
    sizes = plan.height, plan.width, plan.band(BAND)
    given = tuple(scale.array for scale in scales.values())
    if fast:
        run = fp8_kernel(kinds, written.type, *sizes, after)
        multiply(run, plan, left, A.array, B.array, C, (rows, columns, depth), added and added.array, given)
    else:
        made = halves_kernel if plan.kind == By.HALVES else promoted_kernel
        run = made(spelled(kinds), written.type, *sizes, after)
        bias_and_scales = (added.array if added else A.array), *(given or (A.array, A.array))
        extents = rows, columns, depth, A.shape[1], B.shape[1], C.shape[1]
        launch(run, plan.blocks, A.array, B.array, C, *bias_and_scales, *extents)
    if C is not written.array:
        copy(written.info.family, written.array, first_columns(C, columns))
    return written.array


@functools.lru_cache(4096)
def planned(product: Product, fast: bool) -> Plan:
    kinds = (BYTES,) if fast else (BYTES_PROMOTED, BYTES_IN_HALVES)
    return best(found for kind in kinds for found in candidates(kind, product))


@functools.cache
def fp8_kernel(kinds, out_type, BM=128, BN=256, BAND=8, epilogue=PLAIN):
    """C = A @ B.T, of an A and a B that lie along k, added up by the tensor cores.  kinds: e4m3 or e5m2, of A and B."""
    return gemm_kernel(U8, out_type, False, True, BM, BN, BAND, epilogue, kind=spelled(kinds))


def spelled(kinds):
    """One word where they are the same."""
    return kinds[0] if kinds[0] == kinds[1] else kinds


# ---- arrays ---------------------------------------------------------------------------------------------------------


def _operand(name: str, value: object, kind: object) -> tuple[Argument, str]:
    """The bits, and what they are."""
    given = argument("gemm_fp8", name, value, (U8,), rank=2, strided=True)
    check_sides("gemm_fp8", name, given)
    held = HELD.get(given.info.dtype_name)
    if kind is not None:
        kind = HELD.get(dtype_word(kind), kind)
        check_choice("gemm_fp8", f"{name}_dtype", kind, TYPES)
        if held not in (None, kind):
            raise LaunchError("snap.lib.gemm_fp8", f"is {kind!r}, and `{name}` holds {held}", f"{name}_dtype")
    return (given if held is None else of_type(given, step(_bits, given.array))), held or str(kind or TYPES[0])


@view
def _bits(array: Any) -> Any:
    """View 8-bit floats as bytes."""
    return array.view(sys.modules["torch"].uint8 if hasattr(array, "untyped_storage") else "uint8")


def _along(given: Argument) -> Argument:
    """The matrix, or a copy of it, with rows of which boxes can be made."""
    found = in_rows(given)
    return found if has_boxes(found) else in_boxes(found)


def _scales(
    left: Argument, of_a: Any, of_b: Any, rows: int, columns: int
) -> tuple[Scaling | None, dict[str, Argument]]:
    """Find how sums are scaled, and by which arrays."""
    if of_a is None and of_b is None:
        return None, {}
    found = {}
    for name, value in (("scale_a", of_a), ("scale_b", of_b)):
        if value is None:
            raise LaunchError("snap.lib.gemm_fp8", "is missing: both matrices are scaled, or none", name)
        given = argument("gemm_fp8", name, value, (F32,), strided=True)
        same_place("gemm_fp8", left, name, given)
        found[name] = row_major(given)
    first, second = found["scale_a"].shape, found["scale_b"].shape
    if found["scale_a"].size == found["scale_b"].size == 1:
        return Scaling.TENSOR, found
    for name, shape, fits, what in (
        ("scale_a", first, ((rows,), (rows, 1)), f"{rows} rows of `a`"),
        ("scale_b", second, ((columns,), (1, columns)), f"{columns} columns of `b`"),
    ):
        if shape not in fits:
            raise LaunchError(
                "snap.lib.gemm_fp8",
                f"has the shape {shape}; it is one number, as the other scale is, or one for each of the {what},"
                f" {' or '.join(map(str, fits))}",
                name,
            )
    return Scaling.ROWS, found
