"""`snap.lib.layer_norm` and `rms_norm`: rows made of mean 0 and size 1, with their gradients.

Input:      rows, the last axis of an array of f32, f16 or bf16; a weight and a bias a column; a residual to add first
Output:     rows like them; where asked for the sums x + residual, and each row's mean and 1 / standard deviation
Invariant:  arithmetic is f32; a row is read once where a team holds it in registers (16,384 columns of 16 bits at
            least); the gradients of weight and bias are added up in two stages, in an order that depends on the shape
            and the number of multiprocessors alone
Non-goals:  other axes; what is fused into matrix products
"""

from __future__ import annotations

from typing import Any

from snap._compiler.ir.types import F32, Scalar
from snap.lib._calls.arrays import Argument, nothing, same_place
from snap.lib._calls.public_types import ArrayT
from snap.lib._calls.recorded import launch, recorded, step, view
from snap.lib._layers.layer_arrays import (
    flag,
    floats,
    like,
    new,
    next_power,
    persistent,
    real,
    refuse,
    rows_of,
    shared_width,
)
from snap.lib._layers.norm_kernels import long_norm_gradient_kernel, long_norm_kernel, norm_gradient_kernel, norm_kernel
from snap.lib._layers.norm_weights import norm_weight_kernel
from snap.lib._parallel.columns import add_columns
from snap.lib._torch.derivatives import refuse_unseen

SMALL_BLOCK = 128  # threads a block where some lanes of a warp take a row
GRADIENT_BLOCK = 256  # likewise, of gradients: what the teams of a block have is written once
LANE_ELEMENTS = 32  # most elements a lane holds where a warp takes a row
HELD, HELD_TWICE = 32, 16  # most elements a thread holds where a block does: of one array, and of two
BLOCKS = (64, 128, 256, 512, 1024)
RESIDENT = {True: 1024, False: 512}  # threads a multiprocessor that gradients have registers for, with few words each
RESIDENT_WARPS = {True: 640, False: 512}
LONG_BLOCK = 512
SHARED_BYTES = 208 * 1024  # of rows, a multiprocessor
SPLITS = 16  # parts that the rows of long ones are added up in


def layer_norm(x, weight, bias=None, *, residual=None, eps=1e-5, statistics=False):
    """Compute (x - mean) / sqrt(variance + eps) * weight + bias for each row. With `residual`, x + residual is
    normalized, and is the second result. `statistics=True` appends each row's mean and 1 / sqrt(variance + eps).
    """
    refuse_unseen("layer_norm", x=x, weight=weight, bias=bias, residual=residual)
    return _norm("layer_norm", x, weight, bias, residual, eps, statistics)


def rms_norm(x, weight, *, residual=None, eps=1e-6, statistics=False):
    """Compute x / sqrt(mean of x * x + eps) * weight for each row. `residual` and `statistics` are as for `layer_norm`,
    without a mean.
    """
    refuse_unseen("rms_norm", x=x, weight=weight, residual=residual)
    return _norm("rms_norm", x, weight, None, residual, eps, statistics)


def layer_norm_gradient(
    grad: ArrayT,
    x: ArrayT,
    weight: ArrayT,
    mean: ArrayT,
    rstd: ArrayT,
    *,
    grad_residual: ArrayT | None = None,
    bias: bool = True,
    sums: bool = False,
) -> tuple[Any, ...]:
    """Compute (dx, dweight, dbias). `x` is what was normalized, and `mean` and `rstd` are its statistics.
    `grad_residual`, the gradient that x + residual has from elsewhere, is added to dx. With `bias=False`, dbias is
    None. `sums=True` appends the sum of all rows of dx: the gradient of a bias that was added to what was normalized.
    """
    refuse_unseen("layer_norm_gradient", grad=grad, x=x, weight=weight, grad_residual=grad_residual)
    return _gradient("layer_norm_gradient", grad, x, weight, mean, rstd, grad_residual, bias, sums)


def rms_norm_gradient(
    grad: ArrayT, x: ArrayT, weight: ArrayT, rstd: ArrayT, *, grad_residual: ArrayT | None = None
) -> tuple[ArrayT, ArrayT]:
    """Compute (dx, dweight), as `layer_norm_gradient` does."""
    refuse_unseen("rms_norm_gradient", grad=grad, x=x, weight=weight, grad_residual=grad_residual)
    return _gradient("rms_norm_gradient", grad, x, weight, None, rstd, grad_residual, False, False)


@recorded
def _norm(function, x, weight, bias, residual, eps, statistics):
    given = floats(function, "x", x, rows=True)
    rows, length = rows_of(function, "x", given)
    centred = function == "layer_norm"
    scale = _weight(function, "weight", weight, given)
    shift = None if bias is None else _weight(function, "bias", bias, given, scale.type)
    added = None if residual is None else like(function, given, "residual", residual)
    flag(function, "statistics", statistics)
    eps = real(function, "eps", eps, 0.0)
    out = new(given, given.shape, given.type)
    s = None if added is None else new(given, given.shape, given.type)
    mean = given.new(given.shape[:-1], F32) if statistics and centred else None
    rstd = given.new(given.shape[:-1], F32) if statistics else None
    if given.size:
        width = shared_width(length, *(array for array in (given, scale, shift, added) if array is not None))
        flags = centred, shift is not None, added is not None, bool(statistics)
        chosen = _team(length, width, HELD if added is None else HELD_TWICE)
        if chosen is None:
            threads, run = LONG_BLOCK, long_norm_kernel(given.type, scale.type, width, LONG_BLOCK, *flags)
            blocks = persistent(given, threads, rows)
        else:
            words, lanes, threads = chosen
            run = norm_kernel(given.type, scale.type, width, words, lanes, threads, *flags)
            blocks = -(-rows // (threads // lanes))
        launch(
            run,
            blocks,
            given.array,
            given.array if added is None else added.array,
            scale.array,
            scale.array if shift is None else shift.array,
            out,
            nothing(given, given.type) if s is None else s,
            nothing(given, F32) if mean is None else mean,
            nothing(given, F32) if rstd is None else rstd,
            rows,
            length,
            eps,
        )
    results = [array for array in (out, s, mean, rstd) if array is not None]
    return out if len(results) == 1 else tuple(results)


@recorded
def _gradient(function, grad, x, weight, mean, rstd, grad_residual, bias, sums):
    given = floats(function, "x", x, rows=True)
    rows, length = rows_of(function, "x", given)
    centred = function == "layer_norm_gradient"
    back = like(function, given, "grad", grad)
    scale = _weight(function, "weight", weight, given)
    middle = like(function, given, "mean", mean, given.shape[:-1], (F32,)) if centred else None
    spread = like(function, given, "rstd", rstd, given.shape[:-1], (F32,))
    added = None if grad_residual is None else like(function, given, "grad_residual", grad_residual)
    parts = 1 + flag(function, "bias", bias) + flag(function, "sums", sums)
    dx = new(given, given.shape, given.type)
    dweight = new(given, (length,), scale.type, zero=rows == 0)
    shape = (length,) if parts == 2 else (parts - 1, length)
    others = new(given, shape, scale.type, zero=rows == 0) if parts > 1 else None
    if given.size:
        arrays = (
            back.array,
            given.array,
            scale.array,
            spread.array if middle is None else middle.array,
            spread.array,
            back.array if added is None else added.array,
            dx,
        )
        width = shared_width(length, *(array for array in (given, back, scale, added) if array is not None))
        flags = centred, bias, added is not None, sums
        lines, partial = _rows_of_gradient(given, arrays, scale.type, width, rows, length, *flags)
        wide = 4 if length % 4 == 0 else 1
        add_columns(given, partial, F32, wide, lines, length * parts, dweight, scale.type, others, length)
    sums_of = (others,) if parts == 2 else tuple(step(_line, others, k) for k in range(parts - 1))
    return (dx, dweight, *(sums_of if bias or not centred else (None, *sums_of)))


@view
def _line(array: Any, k: int) -> Any:
    return array[k]


def _rows_of_gradient(
    given: Argument,
    arrays: tuple,
    held: Scalar,
    width: int,
    rows: int,
    length: int,
    centred: bool,
    bias: bool,
    added: bool,
    sums: bool,
) -> tuple[int, Any]:
    """dx, and so many rows of partial sums: of the gradients of weight and bias, and of dx."""
    columns = length * (1 + bias + sums)
    chosen = _team(length, width, HELD_TWICE)
    if chosen is not None:
        words, lanes, threads = chosen
        if lanes > 32 and threads >= 512:  # in half of them no registers are spilled
            words, lanes, threads = -(-length // width // (threads // 2)), threads // 2, threads // 2
        threads = threads if lanes > 32 else GRADIENT_BLOCK
        resident = RESIDENT[words * width <= HELD_TWICE] if lanes > 32 else RESIDENT_WARPS[words * width <= 24]
        fit, bytes = resident // threads, (3 if added else 2) * words * width * threads * given.type.bytes
        # Of warps, the others fill the wait for a row of three arrays, and each copies into what it has just read.
        slots = 1 if (lanes <= 32 and added) or 2 * bytes * fit > SHARED_BYTES else 2
        flags = centred, bias, added, fit if lanes > 32 else None, slots, sums
        run = norm_gradient_kernel(given.type, held, width, words, lanes, threads, *flags)
        blocks = persistent(given, threads, -(-rows // (threads // lanes)), resident)
        partial = given.new((blocks, columns), F32)
        launch(run, blocks, *arrays, partial, rows, length)
        return blocks, partial
    run = long_norm_gradient_kernel(given.type, held, width, LONG_BLOCK, centred, added)
    launch(run, persistent(given, LONG_BLOCK, rows), *arrays, rows, length)
    tiles, splits = -(-length // (width * LONG_BLOCK)), min(SPLITS, rows)
    partial = given.new((splits, columns), F32)
    run = norm_weight_kernel(given.type, width, LONG_BLOCK, centred, bias, sums)
    launch(run, tiles * splits, *arrays[:2], *arrays[3:5], arrays[6], partial, rows, length, tiles)
    return splits, partial


def _team(length: int, width: int, held: int) -> tuple[int, int, int] | None:
    """Words a thread, threads a row, threads a block; None where the row is too long for one.  held: the most elements
    that a thread has of it; in the largest block, 16.
    """
    words = length // width
    if words * width <= 32 * LANE_ELEMENTS:
        lanes = max(2, min(32, next_power(words)))
        return -(-words // lanes), lanes, SMALL_BLOCK
    for threads in BLOCKS:
        each = -(-words // threads)
        if each * width <= (min(held, 16) if threads == BLOCKS[-1] else held):
            return each, threads, threads
    return None


def _weight(function: str, name: str, value: object, given: Argument, type: Scalar | None = None) -> Argument:
    found = floats(function, name, value, types=tuple({given.type, F32}) if type is None else (type,))
    same_place(function, given, name, found)
    if found.shape != given.shape[-1:]:
        raise refuse(function, name, f"has the shape {found.shape}, and a row of `x` {given.shape[-1:]}")
    return found
