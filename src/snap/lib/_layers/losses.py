"""`snap.lib.cross_entropy`: the loss of logits against targets, and its gradient from the same reading of the logits.

Input:      logits, (rows, classes) of f32, f16 or bf16, rows in any stride; a target a row, i32 or i64
Output:     the loss, f32: mean or sum of the rows that count, or one a row; where asked for the gradient of the logits
Invariant:  a block takes a row.  Where the row fits in shared memory it is read once, and its gradient written once,
            in words of 16 bytes wherever rows begin; else it is read twice.  Sums are f32; a row's loss is lse - logit,
            with the lse taken of f32
Non-goals:  label smoothing, weights of classes; classes that are divided among GPUs
"""

from __future__ import annotations

import math
from typing import Any

from snap._compiler.ir.types import F32
from snap.lib._calls.arrays import Argument, nothing
from snap.lib._calls.recorded import launch, recorded
from snap.lib._layers.layer_arrays import (
    WORD,
    flag,
    floats,
    integers,
    new,
    one_of,
    persistent,
    real,
    refuse,
    rows_of,
    shared_width,
    span,
    strides,
    whole,
)
from snap.lib._layers.loss_kernels import (
    HELD,
    THREADS,
    factor_kernel,
    held_loss_kernel,
    long_loss_kernel,
    loss_sum_kernel,
    ragged_loss_kernel,
    scaling_kernel,
)
from snap.lib._torch.derivatives import refuse_unseen

WAYS = ("mean", "sum", "none")


def cross_entropy(logits, targets, *, ignore_index=-100, reduction="mean", scale=1.0, gradient=False, in_place=False):
    """Compute `scale` times the mean (or "sum", or each: "none") of -log softmax(logits)[target], over the rows whose
    target is not `ignore_index`. With `gradient=True`, return the gradient of the logits, too; `in_place=True` writes
    it over them.
    """
    refuse_unseen("cross_entropy", logits=logits)
    return _cross_entropy(logits, targets, ignore_index, reduction, scale, gradient, in_place)


@recorded
def _cross_entropy(logits, targets, ignore_index, reduction, scale, gradient, in_place):
    function = "cross_entropy"
    given = floats(function, "logits", logits, rank=2, strided=True)
    rows, classes = rows_of(function, "logits", given)
    stride = _row_stride(function, given)
    wanted = integers(function, given, "targets", targets, (rows,))
    ignore_index = whole(function, "ignore_index", ignore_index, -(2**31), 2**31)
    one_of(function, "reduction", reduction, WAYS)
    scale = real(function, "scale", scale)
    flag(function, "gradient", gradient)
    if flag(function, "in_place", in_place) and not gradient:
        raise refuse(function, "in_place", "is for the gradient: ask for it with `gradient=True`")
    if in_place and given.info.readonly:
        raise refuse(function, "logits", "is written with `in_place=True`, and the array is read-only")
    if rows and not classes:
        raise refuse(function, "logits", f"has the shape {given.shape}: no classes, and there are rows")
    out = given.array if in_place else new(given, (rows, classes), given.type) if gradient else None
    losses = given.new((rows,), F32)
    factor = given.new((1,), F32)
    launch(factor_kernel(wanted.type), 1, wanted.array, factor, rows, ignore_index, reduction == "mean", scale)
    if rows:
        _launch_rows(given, wanted, losses, factor, out, in_place, rows, classes, stride, ignore_index, reduction)
    if reduction == "none":
        loss = losses
    else:
        loss = given.new((), F32)
        launch(loss_sum_kernel(), 1, losses, factor, loss, rows)
    return loss if out is None else (loss, out)


def _launch_rows(
    given: Argument,
    wanted: Argument,
    losses: Any,
    factor: Any,
    out: Any,
    in_place: bool,
    rows: int,
    classes: int,
    stride: int,
    ignore_index: int,
    reduction: str,
) -> None:
    width = math.gcd(shared_width(classes, given), stride)
    gradient, each = out is not None, reduction == "none"
    source = nothing(given, given.type) if in_place else span(given)
    target = nothing(given, given.type) if out is None else span(given) if in_place else out
    out_stride = stride if in_place or not gradient else classes
    arrays = source, wanted.array, factor, target, losses
    most = WORD // given.type.bytes
    ragged = width < most == given.width() and stride == out_stride and classes + 2 * most <= HELD[given.type.bytes]
    width = most if ragged else width
    held = width * given.type.bytes >= 4 and classes <= HELD[given.type.bytes]
    words = -(-classes // width)
    threads = 128 if words <= 1024 else 256 if words <= 2048 else THREADS
    make = ragged_loss_kernel if ragged else held_loss_kernel if held else long_loss_kernel
    run = make(given.type, wanted.type, width, gradient, in_place, each, threads)
    numbers = (rows, classes, stride) if ragged else (rows, classes, stride, out_stride)
    launch(run, persistent(given, threads, rows), *arrays, *numbers, ignore_index)


def _row_stride(function: str, given: Argument) -> int:
    """Return the row stride of logits whose columns lie side by side."""
    rows, classes = given.shape
    if given.info.contiguous:
        return classes
    of_row, of_column = strides(given)
    if (classes > 1 and of_column != 1) or (rows > 1 and of_row < classes):
        raise refuse(function, "logits", "has columns that do not lie side by side; pass a copy in row-major order")
    return of_row if rows > 1 else classes


def scaled_in_place(x: Any, factor: Any) -> None:
    """Multiply all of an array by a factor, an array of one f32, and do nothing where that is 1."""
    _scaled_in_place(x, factor)


@recorded
def _scaled_in_place(x, factor):
    given = floats("cross_entropy", "logits", x)
    width = given.width()
    blocks = persistent(given, THREADS, -(-given.size // (THREADS * width)))
    launch(scaling_kernel(given.type, width), blocks, given.array, factor, given.size)
    return given.array
