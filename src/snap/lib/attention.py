"""`snap.lib.attention`: softmax(q k^T * scale) v of every head, on the tensor cores, without the matrix of scores.

Input:      q of (batch, heads, queries, size), k and v of (batch, heads that q's share, keys, size), f16 or bf16, in
            any strides
Output:     an array like q, row-major; where asked for, the logarithms of the sums of exponentials, f32
Invariant:  the last query's own key is the last one: with `causal`, query i sees keys up to i + keys - queries.  An
            array whose heads lie one after another, or side by side in rows of whole 64 columns, is read where it lies;
            any other is copied first
Non-goals:  dropout; masks of the user's own; GPUs other than Hopper's
"""

from __future__ import annotations

import math
from typing import Any

from snap.ir.types import BF16, F16, F32, U16
from snap.lib.arrays import Argument, argument, check_apart, number, same_place
from snap.lib.attention_gradients import keys_kernel, queries_kernel, sums_kernel
from snap.lib.attention_kernels import ROWS, forward_kernel
from snap.lib.gemm_arrays import ROW, copy, of_type
from snap.lib.recorded import launch, recorded, step
from snap.lib.torch_derivatives import derivative_wanted
from snap.record import record
from snap.runtime.errors import LaunchError

TYPES = (BF16, F16)
PANEL = 64  # columns that are copied and multiplied at a time
LARGEST, LARGEST_WITH_GRADIENT = 256, 128  # columns of a head


def attention(q, k, v, causal=False, scale=None, window=None, out=None, lse=False):
    """The attention of each query of `q` to the keys `k` with values `v`, all (batch, heads, length, size).

    `causal`: a query sees no key behind its own; the last query's own key is the last one.  `window`: it sees so many
    keys before its own and, unless causal, behind it.  `scale` is 1 / sqrt(size) by default.  `lse=True`: the result is
    a pair, the second the logarithm of the sum of exponentials of every query's scores.  Bits of bf16 may come in
    NumPy's uint16.
    """
    _refuse_derivatives(q=q, k=k, v=v)
    return _attention(q, k, v, causal, scale, window, out, lse)


@recorded(offsets=True)
def _attention(q, k, v, causal, scale, window, out, lse):
    queries, keys, values = (_array(name, value) for name, value in (("q", q), ("k", k), ("v", v)))
    shape = _check_shapes(queries, keys, values)
    batch, heads, rows, size = shape
    shared = keys.shape[1]
    scale = _checked_scale(scale, size)
    _check_masks(causal, window)
    if type(lse) is not bool:
        raise LaunchError("snap.lib.attention", f"is True or False, not {lse!r}", "lse")
    written = _result(queries.new(shape) if out is None else out, queries, shape)
    logs = queries.new((batch, heads, rows), F32) if lse else None
    if keys.size == 0 and written.size:
        step(_fill, written.array, 0)
        if logs is not None:
            step(_fill, logs, -math.inf)
    elif written.size:
        _run(queries, keys, values, written, logs, bool(causal), scale, window, shared)
    return step(_pair, written.array, logs) if lse else written.array


def _run(
    queries: Argument,
    keys: Argument,
    values: Argument,
    written: Argument,
    logs: Any,
    causal: bool,
    scale: float,
    window: int | None,
    shared: int,
) -> None:
    batch, heads, rows, size = queries.shape
    Q, K, V = _laid(queries), _laid(keys), _laid(values)
    lies = {"q": (queries, Q), "k": (keys, K), "v": (values, V)}
    check_apart("attention", written, {name: given for name, (given, laid) in lies.items() if not laid.copied})
    direct = written.info.contiguous and size * written.type.bytes % ROW == 0 and written.info.pointer % ROW == 0
    O = written.array if direct else queries.new((batch, heads, rows, Q.size))  # noqa: E741
    flat = step(_reshaped, O, (batch * heads, rows, Q.size if not direct else size))
    nothing = queries.new((1,), F32) if logs is None else step(_reshaped, logs, (batch * heads * rows,))
    run = forward_kernel(queries.type, -(-size // PANEL) * PANEL, causal, window is not None, logs is not None)
    extents = [extent for given in (Q, K, V) for extent in (given.shape[0], given.shape[2])]
    launch(
        run,
        -(-rows // ROWS) * batch * heads,
        Q.array,
        K.array,
        V.array,
        flat,
        nothing,
        *extents,
        batch * heads,
        size if direct else Q.size,
        rows,
        keys.shape[2],
        heads,
        heads // shared,
        *Q.steps,
        *K.steps,
        *V.steps,
        window or 0,
        scale * math.log2(math.e),
    )
    if not direct:
        copy(written.info.family, written.array, step(_first, O, size))


# ---- the gradient ---------------------------------------------------------------------------------------------------


def attention_gradients(grad, q, k, v, out, lse, causal=False, scale=None, window=None):
    """The gradients of q, k and v for `grad`, that of the result; `out` and `lse` are what `attention` gave for the
    same arguments.  The same arrays give the same bits.  Heads have at most 128 columns.
    """
    _refuse_derivatives(grad=grad, q=q, k=k, v=v)
    return _gradients(grad, q, k, v, out, lse, causal, scale, window)


@recorded(offsets=True)
def _gradients(grad, q, k, v, out, lse, causal, scale, window):
    queries, keys, values = (_array(name, value) for name, value in (("q", q), ("k", k), ("v", v)))
    shape = _check_shapes(queries, keys, values)
    batch, heads, rows, size = shape
    if size > LARGEST_WITH_GRADIENT:
        raise LaunchError(
            "snap.lib.attention", f"has heads of {size} columns; with gradients they have at most 128", "q"
        )
    scale = _checked_scale(scale, size)
    _check_masks(causal, window)
    given, results = _result(grad, queries, shape, "grad", False), _result(out, queries, shape, "out", False)
    logs = argument("attention", "lse", lse, (F32,), rank=3)
    same_place("attention", queries, "lse", logs)
    if logs.shape != shape[:3]:
        raise LaunchError("snap.lib.attention", f"has the shape {logs.shape}, and the queries {shape[:3]}", "lse")
    made = [queries.new(shape), keys.new(keys.shape), values.new(values.shape)]
    if queries.size == 0 or keys.size == 0:
        for array in made:
            step(_fill, array, 0)
        return step(_together, *made)
    Q, K, V = _laid(queries), _laid(keys), _laid(values)
    G, O = _laid(_in_heads(given)), _laid(_in_heads(results))  # noqa: E741
    sums = queries.new((batch * heads * rows,), F32)
    flat = [step(_reshaped, x.array, (batch * heads * rows, x.size)) for x in (O, G)]
    launch(sums_kernel(queries.type, G.size), -(-batch * heads * rows // 4), *flat, sums, batch * heads * rows)
    # Results of whole 16 bytes a row are written where they belong.
    filled = Q.size
    targets = [
        queries.new((*x.shape[:3], filled)) if filled != size else y for x, y in zip((queries, keys, values), made)
    ]
    boxes = [step(_reshaped, x, (-1, x.shape[2], filled)) for x in targets]
    extents = [extent for x in (Q, K, V, G) for extent in (x.shape[0], x.shape[2])]
    logs_of = step(_reshaped, logs.array, (batch * heads * rows,))
    numbers = (rows, keys.shape[2], heads, heads // keys.shape[1], *Q.steps, *K.steps, *V.steps, *G.steps)
    last = (window or 0, scale, scale * math.log2(math.e))
    wide = -(-size // PANEL) * PANEL
    arrays = (Q.array, K.array, V.array, G.array, logs_of, sums)
    masks = (bool(causal), window is not None)
    blocks = -(-rows // ROWS) * batch * heads
    run = queries_kernel(queries.type, wide, *masks)
    launch(run, blocks, *arrays, boxes[0], *extents, batch * heads, filled, *numbers, *last)
    blocks = -(-keys.shape[2] // ROWS) * batch * keys.shape[1]
    run = keys_kernel(queries.type, wide, *masks)
    launch(run, blocks, *arrays, *boxes[1:], *extents, batch * keys.shape[1], filled, *numbers, *last)
    if filled != size:
        for array, target in zip(made, targets):
            copy(queries.info.family, array, step(_first, target, size))
    return step(_together, *made)


def _in_heads(given: Argument) -> Argument:
    """The array, or a copy of it, whose heads lie one after another."""
    if given.info.contiguous:
        return given
    room = given.new(given.shape)
    copy(given.info.family, room, given.array)
    return of_type(given, room)


def _together(*arrays: Any) -> tuple:
    return arrays


# ---- arrays ---------------------------------------------------------------------------------------------------------


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


def _laid(given: Argument) -> Laid:
    batch, heads, rows, size = given.shape
    whole = size * given.type.bytes % ROW == 0 and given.info.pointer % ROW == 0
    if given.info.contiguous and whole:
        array = step(_reshaped, given.array, (batch * heads, rows, size))
        return Laid(array, (batch * heads, rows, size), (heads, 1, 0, 0), size)
    if whole and size % PANEL == 0:
        side_by_side = of_type(given, step(_swapped, given.array))
        if side_by_side.info.contiguous:
            array = step(_reshaped, side_by_side.array, (batch, rows, heads * size))
            return Laid(array, (batch, rows, heads * size), (1, 0, 0, size), size)
        pitch = _pitch(given)
        if pitch is not None:
            array, column = step(_whole_rows, given.array, pitch), given.array.storage_offset() % pitch
            return Laid(array, (batch, rows, pitch), (1, 0, column, size), size)
    filled = -(-size * given.type.bytes // ROW) * ROW // given.type.bytes
    room = given.new((batch, heads, rows, filled), zero=filled != size)
    copy(given.info.family, step(_first, room, size), given.array)
    array = step(_reshaped, room, (batch * heads, rows, filled))
    return Laid(array, (batch * heads, rows, filled), (heads, 1, 0, 0), filled, copied=True)


def _pitch(given: Argument) -> int | None:
    """The length of the rows of which a tensor of torch shows some columns, as of queries, keys and values that were
    computed side by side; None where it shows something else.
    """
    if given.info.family != "torch":
        return None
    (batch, heads, rows, size), tensor = given.shape, given.array
    of_batch, of_head, pitch, one = tensor.stride()
    start = tensor.storage_offset()
    column, bytes = start % pitch if pitch else 0, given.type.bytes
    fits = start - column + batch * rows * pitch <= tensor.untyped_storage().nbytes() // bytes
    rows_of_one = one == 1 and of_head == size and (batch == 1 or of_batch == rows * pitch)
    inside = pitch > 0 and column + heads * size <= pitch
    aligned = pitch * bytes % ROW == 0 and column * bytes % ROW == 0
    return pitch if rows_of_one and inside and fits and aligned else None


def _whole_rows(tensor: Any, pitch: int) -> Any:
    batch, _, rows, _ = tensor.shape
    start = tensor.storage_offset()
    return tensor.as_strided((batch, rows, pitch), (rows * pitch, pitch, 1), start - start % pitch)


def _reshaped(array: Any, shape: tuple[int, ...]) -> Any:
    return array.reshape(shape)


def _swapped(array: Any) -> Any:
    return array.swapaxes(1, 2)


def _first(array: Any, size: int) -> Any:
    return array[..., :size]


def _fill(array: Any, value: float) -> None:
    array[...] = value


def _pair(first: Any, second: Any) -> tuple:
    return first, second


# ---- what does not fit ----------------------------------------------------------------------------------------------


def _array(name: str, value: object, types: tuple = TYPES) -> Argument:
    given = argument("attention", name, value, (*types, U16), rank=4, strided=True)
    return argument("attention", name, value, types, rank=4, type=BF16, strided=True) if given.type == U16 else given


def _check_shapes(queries: Argument, keys: Argument, values: Argument) -> tuple[int, int, int, int]:
    def refuse(name: str, problem: str) -> LaunchError:
        return LaunchError("snap.lib.attention", problem, name)

    batch, heads, rows, size = queries.shape
    for name, other in (("k", keys), ("v", values)):
        same_place("attention", queries, name, other)
        if other.type != queries.type:
            raise refuse(name, f"holds {other.type}, the queries {queries.type}")
        if other.shape[0] != batch or other.shape[3] != size:
            raise refuse(name, f"has the shape {other.shape}, the queries {queries.shape}: batch and head differ")
    if heads and (keys.shape[1] == 0 or heads % keys.shape[1]):
        raise refuse("k", f"has {keys.shape[1]} heads, which do not divide the queries' {heads} among them")
    if values.shape != keys.shape:
        raise refuse("v", f"has the shape {values.shape}, the keys {keys.shape}")
    if not 0 < size <= LARGEST:
        raise refuse("q", f"has heads of {size} columns; they have from 1 to {LARGEST}")
    if max(rows, keys.shape[2]) >= 2**30 or batch * heads * -(-rows // ROWS) >= 2**31:
        raise refuse("q", f"has the shape {queries.shape}, which is too large")
    return batch, heads, rows, size


def _result(
    value: object, queries: Argument, shape: tuple[int, ...], name: str = "out", is_written: bool = True
) -> Argument:
    given = _array(name, value, (queries.type,))
    same_place("attention", queries, name, given)
    if given.shape != shape:
        raise LaunchError("snap.lib.attention", f"has the shape {given.shape}, and the result {shape}", name)
    if is_written and given.info.readonly:
        raise LaunchError("snap.lib.attention", "is written, and the array is read-only", name)
    return given


def _checked_scale(scale: object, size: int) -> float:
    found = size**-0.5 if scale is None else number("attention", "scale", scale, F32)
    if not 0 < found < math.inf:
        raise LaunchError("snap.lib.attention", f"is a positive number, not {scale!r}", "scale")
    return found


def _check_masks(causal: object, window: object) -> None:
    if type(causal) is not bool:
        raise LaunchError("snap.lib.attention", f"is True or False, not {causal!r}", "causal")
    if window is not None and (type(window) is not int or not 0 <= window < 2**30):
        raise LaunchError("snap.lib.attention", f"is a number of keys, from 0 on, or None, not {window!r}", "window")


def _refuse_derivatives(**tensors: object) -> None:
    for name, value in tensors.items():
        if derivative_wanted(value):
            raise NotImplementedError(
                f"the derivative of this call would be lost, and `{name}` wants one: detach it, or call it under"
                " torch.no_grad()"
            )
