"""`snap.lib.embedding`: rows of a table, by number, and the gradient of the table.

Input:      tokens, i32 or i64 of any shape; a table of f32, f16 or bf16; a table of positions to add
Output:     a row a token; of the gradient, a row for each of the table's
Invariant:  a token outside of the table fails an assertion.  The gradient's sums are f32, and rounded once.  By default
            they are taken in the order of tokens: the places of each row's tokens are put in order first, and every row
            of the table is written once, without atomics
Non-goals:  sparse gradients; tables that are divided among GPUs
"""

from __future__ import annotations

import math
from typing import Any, overload

from snap._compiler.ir.types import F32, I32, Scalar
from snap.lib._calls.arrays import Argument, same_place
from snap.lib._calls.public_types import AnyArray, ArrayT, FloatType
from snap.lib._calls.recorded import launch, recorded
from snap.lib._layers.embedding_kernels import (
    CAST_THREADS,
    GATHER_THREADS,
    LOOKUP_THREADS,
    MOST_TOKENS,
    ORDER_THREADS,
    SLICE,
    adding_kernel,
    cast_kernel,
    counting_kernel,
    lookup_kernel,
    ordering_kernel,
    positions_kernel,
    rows_kernel,
    slices_kernel,
    spreading_kernel,
    totals_kernel,
)
from snap.lib._layers.layer_arrays import (
    counting,
    flag,
    floats,
    integers,
    new,
    persistent,
    refuse,
    rows_of,
    shared_width,
    stored,
    whole,
)
from snap.lib._parallel.scanning import scan
from snap.lib._parallel.teams import most_blocks
from snap.lib._torch.derivatives import refuse_unseen

MOST_SEGMENTS, MOST_COUNTS = 32, 2**26  # that tokens are counted in, and counters of all of them


def embedding(tokens, table, *, positions=None, dtype=None):
    """Look up `table[tokens]`. With `positions`, a table of as many columns, add its row of each token's place in the
    last axis. `dtype` is that of the result, by default the table's.
    """
    refuse_unseen("embedding", table=table, positions=positions)
    return _embedding(tokens, table, positions, dtype)


@overload
def embedding_gradient(
    grad: ArrayT,
    tokens: AnyArray,
    rows: int,
    *,
    positions: None = None,
    deterministic: bool = True,
    dtype: FloatType | None = None,
) -> ArrayT: ...


@overload
def embedding_gradient(
    grad: ArrayT,
    tokens: AnyArray,
    rows: int,
    *,
    positions: int,
    deterministic: bool = True,
    dtype: FloatType | None = None,
) -> tuple[ArrayT, ArrayT]: ...


def embedding_gradient(
    grad: ArrayT,
    tokens: AnyArray,
    rows: int,
    *,
    positions: int | None = None,
    deterministic: bool = True,
    dtype: FloatType | None = None,
) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Compute the gradient of a table of `rows` rows. With `positions`, the number of rows of that table, compute its
    gradient, too. With `deterministic=False`, atomics add it up, in any order. `dtype` is that of the results, by
    default that of `grad`.
    """
    refuse_unseen("embedding_gradient", grad=grad)
    return _gradient(grad, tokens, rows, positions, deterministic, dtype)


@recorded
def _embedding(tokens, table, positions, dtype):
    function = "embedding"
    given = floats(function, "table", table, rank=2)
    rows, length = rows_of(function, "table", given)
    type = stored(function, "dtype", dtype, given.type)
    named = integers(function, given, "tokens", tokens, None)
    places = None if positions is None else _positions(function, named, given, positions)
    _check_tokens(function, named, length)
    if named.size and not rows:
        raise refuse(function, "table", "has no rows, and there are tokens")
    out = new(given, (*named.shape, length), type)
    if named.size and length:
        width = shared_width(length, *(array for array in (given, places) if array is not None))
        run = lookup_kernel(given.type, named.type, type, counting(named.size * length), width, places is not None)
        blocks = persistent(given, LOOKUP_THREADS, -(-named.size * (length // width) // LOOKUP_THREADS))
        added = given.array if places is None else places.array
        last = named.shape[-1] if named.shape else 1
        launch(run, blocks, named.array, given.array, added, out, named.size, last, rows, length)
    return out


def _positions(function: str, named: Argument, table: Argument, positions: object) -> Argument:
    given = floats(function, "positions", positions, rank=2, types=(table.type,))
    same_place(function, table, "positions", given)
    if given.shape[1] != table.shape[1]:
        raise refuse(function, "positions", f"has rows of {given.shape[1]} elements, the table of {table.shape[1]}")
    if not named.shape:
        raise refuse(function, "tokens", "has no dimension, and `positions` are places in its last one")
    if named.shape[-1] > given.shape[0]:
        raise refuse(function, "positions", f"has {given.shape[0]} rows for {named.shape[-1]} places")
    return given


def _check_tokens(function: str, named: Argument, length: int) -> None:
    if named.size > MOST_TOKENS:
        raise refuse(function, "tokens", f"has {named.size} elements, more than {MOST_TOKENS}")


@recorded
def _gradient(grad, tokens, rows, positions, deterministic, dtype):
    function = "embedding_gradient"
    back = floats(function, "grad", grad, rows=True)
    if not back.shape:
        raise refuse(function, "grad", "has no dimension, and a row has one")
    named = integers(function, back, "tokens", tokens, back.shape[:-1])
    length = back.shape[-1]
    rows = whole(function, "rows", rows, 0 if not named.size else 1, 2**30)
    type = stored(function, "dtype", dtype, back.type)
    flag(function, "deterministic", deterministic)
    _check_tokens(function, named, length)
    places = None
    if positions is not None:
        if not named.shape:
            raise refuse(function, "tokens", "has no dimension, and `positions` are places in its last one")
        places = whole(function, "positions", positions, named.shape[-1], 2**30)
    empty = named.size == 0 or length == 0
    if empty:
        dtable = new(back, (rows, length), type, zero=True)
    elif deterministic:
        dtable = _in_order(back, named, rows, length, type)
    else:
        dtable = _by_atomics(back, named, rows, length, type)
    if places is None:
        return dtable
    dpositions = new(back, (places, length), type, zero=empty)
    if not empty:
        width = shared_width(length, back)
        blocks = persistent(back, LOOKUP_THREADS, -(-places * (length // width) // LOOKUP_THREADS))
        batch = math.prod(named.shape[:-1])
        run = positions_kernel(back.type, type, width)
        launch(run, blocks, back.array, dpositions, batch, named.shape[-1], places, length)
    return (dtable, dpositions)


def _in_order(back: Argument, named: Argument, rows: int, length: int, type: Scalar) -> Any:
    tokens, width = named.size, shared_width(length, back)
    segments = max(1, min(MOST_SEGMENTS, MOST_COUNTS // rows, -(-tokens // ORDER_THREADS)))
    segment = -(-tokens // (segments * ORDER_THREADS)) * ORDER_THREADS
    counts = back.new((segments, rows), I32, zero=True)
    blocks = persistent(back, LOOKUP_THREADS, -(-tokens // LOOKUP_THREADS))
    launch(counting_kernel(named.type), blocks, named.array, counts, tokens, rows, segment)
    totals, of_rows = back.new((rows,), I32), -(-rows // LOOKUP_THREADS)
    launch(totals_kernel(), of_rows, counts, totals, rows, segments)
    starts = scan(totals, exclusive=True)
    launch(spreading_kernel(), of_rows, counts, starts, rows, segments)
    order = back.new((tokens,), I32)
    launch(ordering_kernel(named.type), -(-tokens // segment), named.array, counts, order, tokens, rows, segment)
    dtable = new(back, (rows, length), type)
    slices, chunks = -(-tokens // SLICE), -(-(length // width) // 32)
    parts = back.new((2 * slices, length), F32)
    run = slices_kernel(back.type, named.type, type, width)
    blocks = -(-slices * chunks * 32 // GATHER_THREADS)
    launch(run, blocks, back.array, named.array, order, starts, totals, dtable, parts, tokens, length, chunks)
    run = rows_kernel(type, counting(rows * length), width)
    blocks = persistent(back, LOOKUP_THREADS, -(-rows * (length // width) // LOOKUP_THREADS))
    launch(run, blocks, parts, starts, totals, dtable, rows, length)
    return dtable


def _by_atomics(back: Argument, named: Argument, rows: int, length: int, type: Scalar) -> Any:
    sums = back.new((rows, length), F32, zero=True)
    width = shared_width(length, back)
    wide = 4 if width % 4 == 0 and most_blocks(back) > 1 else 1
    blocks = persistent(back, LOOKUP_THREADS, -(-named.size * (length // width) // LOOKUP_THREADS))
    run = adding_kernel(back.type, named.type, counting(named.size * length), width, wide)
    launch(run, blocks, back.array, named.array, sums, named.size, rows, length)
    if type == F32:
        return sums
    dtable = new(back, (rows, length), type)
    blocks = persistent(back, CAST_THREADS, -(-rows * length // (4 * CAST_THREADS)))
    launch(cast_kernel(F32, type), blocks, sums, dtable, rows * length)
    return dtable
