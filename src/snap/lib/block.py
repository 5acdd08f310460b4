"""Make device functions for the threads of a block: reduce, scan, broadcast, exchange, load, store.

Input:      factories: a type, sizes, an operator.  `total = block.reduce(float)` makes a device function
Output:     Snap device functions for blocks of whole warps, as many as call them; what differs is at thread[1], what
            the block agrees on at block[1].  Types of reduce, scan and broadcast are scalars and records
Invariant:  shared memory is the function's own and given back when it returns; barriers are inferred, also those
            between two calls
Non-goals:  blocks that are not whole warps
"""

from __future__ import annotations

from snap import *
from snap.api import SnapFunction
from snap.lib import warp as of_warp
from snap.lib._calls.operators import cached_factory, operator
from snap.lib._calls.public_types import DType, Exchange, Movement, Operation
from snap.lib._calls.renamed import without_threads
from snap.lib._parallel.block_promises import promised_scan
from snap.lib._parallel.items import (
    OF_BLOCK,
    exchange_through,
    load_items,
    load_words,
    store_items,
    store_words,
)
from snap.lib.warp import (
    BLOCKED_TO_STRIPED,
    STRIPED_TO_BLOCKED,
    checked_items,
    from_striped,
    positive,
    with_identity,
)


@without_threads(1)
@cached_factory(records=True)
def reduce(dtype: DType, op: Operation = "add", identity: object = None) -> SnapFunction:
    """f(v: T @ thread[1]) -> T @ block[1]: all values of the block combined, in every thread."""
    combine, in_warp = operator(op, dtype, identity), of_warp.reduce(dtype, op, identity)
    return (_reduce_named if combine.named else _reduce_given)(dtype, in_warp, combine.each)


@without_threads(1)
@cached_factory(records=True)
def scan(
    dtype: DType,
    op: Operation = "add",
    items: int | None = None,
    exclusive: bool = False,
    identity: object = None,
    most: int | None = None,
) -> SnapFunction:
    """The values of this thread and all before it combined; exclusive: of those before.

    Without `items` f(v: T @ thread[1]) -> T @ thread[1].  With it f(v: ref(T[items]) @ thread[1]) -> T @ block[1]: the
    items of a thread are consecutive, they are scanned in place, and what comes back is all values of the block
    combined.

    most: of sums of integers, that each value is from 0 to it.  Proofs then ask that of every call, and know how large
    the sums are, and that those of a later thread begin where those of an earlier one end.
    """
    combine = operator(op, dtype, identity)
    nothing = with_identity(combine, op) if exclusive else None
    if most is not None:
        return promised_scan(dtype, op, items, exclusive, most, scan)
    upto = _scan(dtype, of_warp.scan(dtype, op), combine.each)
    if items is None:
        return _shifted(dtype, upto, nothing) if exclusive else upto
    return _scan_items(dtype, positive("items", items), upto, combine.each, exclusive, nothing)


@without_threads(1)
@cached_factory(records=True)
def broadcast(dtype: DType) -> SnapFunction:
    """f(v: T @ thread[1], source: int @ block[1]) -> T @ block[1]: the value of one thread, by its index in the
    block.
    """
    T = dtype

    @device(block, warp)
    def block_broadcast(v: T @ thread[1], source: int) -> T:
        cell: shared(T[1])
        with each(thread, cell) as t:
            if t == source:
                cell[0] = v
        return cell[0]

    return block_broadcast


@without_threads(2)
@cached_factory
def exchange(dtype: DType, items: int, way: Exchange = STRIPED_TO_BLOCKED) -> SnapFunction:
    """f(v: ref(T[items]) @ thread[1]): reorders the items of a block's threads.  Striped: item k of thread t is number
    k*threads + t; blocked: t*items + k.
    """
    T, ITEMS = dtype, positive("items", items)
    through = exchange_through(OF_BLOCK, T, ITEMS, from_striped(way))

    @device(block, warp)
    def block_exchange(v: ref(T[ITEMS])):
        buffer: shared(T[count(warp) * ITEMS * 33])
        through(v, buffer)

    return block_exchange


@without_threads(2)
@cached_factory
def load(dtype: DType, items: int, how: Movement = "striped") -> SnapFunction:
    """f(src: ptr(const(T)) @ block[1], start: i64, n: i64, fill: T, v: ref(T[items]) @ thread[1]), the middle ones @
    block[1].

    Elements start .. start + threads*items of src, which has n; what lies beyond is `fill`.  "direct", "vectorized" and
    "transposed" give each thread consecutive elements, "striped" every `threads`-th; "vectorized" reads words of up to
    16 bytes, for which src begins at a multiple of them; "transposed" reads striped and exchanges in shared memory.
    """
    T, ITEMS = dtype, checked_items(how, items)
    if how != "transposed":
        return (
            load_words(OF_BLOCK, T, ITEMS) if how == "vectorized" else load_items(OF_BLOCK, T, ITEMS, how == "striped")
        )
    striped, turn = load_items(OF_BLOCK, T, ITEMS, True), exchange(T, ITEMS, STRIPED_TO_BLOCKED)

    @device(block, warp)
    def block_load_transposed(src: ptr(const(T)), start: i64, n: i64, fill: T, v: ref(T[ITEMS])):
        striped(src, start, n, fill, v)
        turn(v)

    return block_load_transposed


@without_threads(2)
@cached_factory
def store(dtype: DType, items: int, how: Movement = "striped") -> SnapFunction:
    """f(dst: ptr(T) @ block[1], start: i64 @ block[1], n: i64 @ block[1], v: ref(T[items]) @ thread[1]): the reverse of
    `load`.

    What lies beyond n is not written.  "transposed" leaves v in the order of memory.
    """
    T, ITEMS = dtype, checked_items(how, items)
    if how != "transposed":
        return (
            store_words(OF_BLOCK, T, ITEMS)
            if how == "vectorized"
            else store_items(OF_BLOCK, T, ITEMS, how == "striped")
        )
    striped, turn = store_items(OF_BLOCK, T, ITEMS, True), exchange(T, ITEMS, BLOCKED_TO_STRIPED)

    @device(block, warp)
    def block_store_transposed(dst: ptr(T), start: i64, n: i64, v: ref(T[ITEMS])):
        turn(v)
        striped(dst, start, n, v)

    return block_store_transposed


# ---- reduce ---------------------------------------------------------------------------------------------------------


def _reduce_named(T, in_warp, op):
    """The block agrees on the sums of its warps, and combines them as a block: one barrier."""

    @device(block, warp)
    def block_reduce(v: T @ thread[1]) -> T:
        warps: constexpr(int) = count(warp)
        sums: shared(T[warps])
        with each(warp, sums) as w:
            s: T = in_warp(v)
            with one(thread, sums):
                sums[w] = s
        total: T = sums[0]
        for k in unroll(range(1, warps)):
            total = op(total, sums[k])
        return total

    return block_reduce


def _reduce_given(T, in_warp, op):
    """A function of single threads gives values of single threads: the first thread's is handed to the block."""

    @device(block, warp)
    def block_reduce(v: T @ thread[1]) -> T:
        warps: constexpr(int) = count(warp)
        sums: shared(T[warps])
        with each(warp, sums) as w:
            s: T = in_warp(v)
            with one(thread, sums):
                sums[w] = s
        total: T @ thread[1] = sums[0]
        for k in unroll(range(1, warps)):
            total = op(total, sums[k])
        return intrinsic.broadcast(total)

    return block_reduce


# ---- scan -----------------------------------------------------------------------------------------------------------


def _scan(T, in_warp, op):
    @device(block, warp)
    def block_scan(v: T @ thread[1]) -> T @ thread[1]:
        warps: constexpr(int) = count(warp)
        sums: shared(T[warps])
        w: int @ warp = id()
        upto: T @ thread[1] = in_warp(v)
        with each(warp, sums):
            s: T = intrinsic.shfl(upto, 31)
            with one(thread, sums):
                sums[w] = s
        before: T @ thread[1] = sums[0]
        for k in unroll(range(1, warps)):
            more: T @ thread[1] = op(before, sums[k])
            before = more if k < w else before
        all_upto: T @ thread[1] = op(before, upto)
        return all_upto if w > 0 else upto

    return block_scan


def _shifted(T, upto, nothing):
    """Each thread's value for the next one."""

    @device(block, warp)
    def block_scan_exclusive(v: T @ thread[1]) -> T @ thread[1]:
        threads: constexpr(int) = count(thread)
        cells: shared(T[threads])
        t: int @ thread[1] = id()
        mine: T @ thread[1] = upto(v)
        with each(thread, cells):
            cells[t] = mine
        return cells[t - 1] if t > 0 else T(nothing)

    return block_scan_exclusive


def _scan_items(T, ITEMS, upto, op, EXCLUSIVE, nothing):
    @device(block, warp)
    def block_scan_items(v: ref(T[ITEMS])) -> T:
        threads: constexpr(int) = count(thread)
        cells: shared(T[threads])
        t: int @ thread[1] = id()
        own: T @ thread[1] = v[0]
        for k in unroll(range(1, ITEMS)):
            own = op(own, v[k])
        mine: T @ thread[1] = upto(own)
        with each(thread, cells):
            cells[t] = mine
        before: T @ thread[1] = own
        if EXCLUSIVE:
            before = T(nothing)
        before = cells[t - 1] if t > 0 else before
        for k in unroll(range(ITEMS)):
            more: T @ thread[1] = op(before, v[k])
            now: T @ thread[1] = more if t > 0 or k > 0 else v[k]  # without an identity the first item stands alone
            v[k], before = before if EXCLUSIVE else now, now
        return cells[threads - 1]

    return block_scan_items
