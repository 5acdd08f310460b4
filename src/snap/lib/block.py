"""Make device functions for the threads of a block: reduce, scan, broadcast, exchange, load, store.

Input:      factories: a type, the threads of the block, sizes, an operator.  `total = block.reduce(float, 256)` makes a
            device function
Output:     Snap device functions that require block[1] and thread[threads]; what differs is at thread[1], what the
            block agrees on at block[1]
Invariant:  shared memory is the function's own and given back when it returns; barriers are inferred, also those
            between two calls
Non-goals:  blocks that are not whole warps
"""

from __future__ import annotations

from typing import Any

from snap import *
from snap._compiler.ir.hardware import BLOCK_THREADS, WARP
from snap.api import SnapFunction
from snap.lib import warp as of_warp
from snap.lib._calls.operators import cached_factory, operator, widest, word
from snap.lib._calls.public_types import DType, Exchange, Movement, Operation
from snap.lib._parallel.block_promises import promised_scan
from snap.lib.warp import BLOCKED_TO_STRIPED, STRIPED_TO_BLOCKED, check_how, positive, strides, ways, with_identity


@cached_factory
def reduce(dtype: DType, threads: int, op: Operation = "add", identity: object = None) -> SnapFunction:
    """f(v: T @ thread[1]) -> T @ block[1]: all values of the block combined, in every thread."""
    combine = operator(op, dtype, identity)
    in_warp = of_warp.reduce(dtype, op, identity)
    if combine.together:
        return _reduce_named(dtype, whole_warps(threads), in_warp, combine.together)
    return _reduce_given(dtype, whole_warps(threads), in_warp, combine.each)


@cached_factory
def scan(
    dtype: DType,
    threads: int,
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
    nothing = with_identity(combine, op) if exclusive else 0
    if most is not None:
        return promised_scan(dtype, whole_warps(threads), op, items, exclusive, most, scan)
    upto = _scan(dtype, whole_warps(threads), of_warp.scan(dtype, op), combine.each)
    if items is None:
        return _shifted(dtype, threads, upto, nothing) if exclusive else upto
    return _scan_items(dtype, threads, positive("items", items), upto, combine.each, exclusive, nothing)


@cached_factory
def broadcast(dtype: DType, threads: int) -> SnapFunction:
    """f(v: T @ thread[1], source: int @ block[1]) -> T @ block[1]: the value of one thread, by its index in the
    block.
    """
    T, THREADS = dtype, whole_warps(threads)

    @device(block, thread[THREADS])
    def block_broadcast(v: T @ thread[1], source: int) -> T:
        cell: shared(T[1])
        with each(thread, cell) as t:
            if t == source:
                cell[0] = v
        return cell[0]

    return block_broadcast


@cached_factory
def exchange(dtype: DType, threads: int, items: int, way: Exchange = STRIPED_TO_BLOCKED) -> SnapFunction:
    """f(v: ref(T[items]) @ thread[1]): reorders threads*items values.  Striped: item k of thread t is number k*threads
    + t; blocked: t*items + k.
    """
    T, THREADS, ITEMS = dtype, whole_warps(threads), positive("items", items)
    # One element in 33 stays empty: threads a power of two apart do not meet in one bank.
    SIZE = THREADS * ITEMS // 32 * 33
    to_across, to_along, from_across, from_along = ways(way, THREADS, ITEMS)

    @device(block, thread[THREADS])
    def block_exchange(v: ref(T[ITEMS])):
        buffer: shared(T[SIZE])
        with each(thread, buffer) as t:
            for k in unroll(range(ITEMS)):
                to: int = t * to_across + k * to_along
                buffer[to + to / 32] = v[k]
        with each(thread) as t:
            for k in unroll(range(ITEMS)):
                at: int = t * from_across + k * from_along
                v[k] = buffer[at + at / 32]

    return block_exchange


@cached_factory
def load(dtype: DType, threads: int, items: int, how: Movement = "striped") -> SnapFunction:
    """f(src: ptr(const(T)) @ block[1], start: i64, n: i64, fill: T, v: ref(T[items]) @ thread[1]), the middle ones @
    block[1].

    Elements start .. start + threads*items of src, which has n; what lies beyond is `fill`.  "direct", "vectorized" and
    "transposed" give each thread consecutive elements, "striped" every `threads`-th; "vectorized" reads words of up to
    16 bytes, for which src begins at a multiple of them; "transposed" reads striped and exchanges in shared memory.
    """
    check_how(how)
    whole_warps(threads), positive("items", items)
    if how == "transposed":
        return _load_transposed(dtype, threads, items)
    if how == "vectorized":
        return _load_vectorized(dtype, threads, items)
    return _load_items(dtype, threads, items, *strides(how, threads, items))


@cached_factory
def store(dtype: DType, threads: int, items: int, how: Movement = "striped") -> SnapFunction:
    """f(dst: ptr(T) @ block[1], start: i64 @ block[1], n: i64 @ block[1], v: ref(T[items]) @ thread[1]): the reverse of
    `load`.

    What lies beyond n is not written.  "transposed" leaves v in the order of memory.
    """
    check_how(how)
    whole_warps(threads), positive("items", items)
    if how == "transposed":
        return _store_transposed(dtype, threads, items)
    if how == "vectorized":
        return _store_vectorized(dtype, threads, items)
    return _store_items(dtype, threads, items, *strides(how, threads, items))


def whole_warps(threads: Any) -> int:
    if positive("threads", threads) % WARP or threads > BLOCK_THREADS:
        raise ValueError(f"`threads` is a multiple of {WARP} up to {BLOCK_THREADS}, not {threads}")
    return threads


# ---- reduce ---------------------------------------------------------------------------------------------------------


def _reduce_named(T, THREADS, in_warp, together):
    """The block agrees on the sums of its warps, and combines them as a block: one barrier."""
    WARPS = THREADS // WARP

    @device(block, thread[THREADS])
    def block_reduce(v: T @ thread[1]) -> T:
        sums: shared(T[WARPS])
        with each(warp, sums) as w:
            s: T = in_warp(v)
            with one(thread, sums):
                sums[w] = s
        total: T = sums[0]
        for k in unroll(range(1, WARPS)):
            total = together(total, sums[k])
        return total

    return block_reduce


def _reduce_given(T, THREADS, in_warp, op):
    """A function of single threads gives values of single threads: the first thread's is handed to the block."""
    WARPS = THREADS // WARP

    @device(block, thread[THREADS])
    def block_reduce(v: T @ thread[1]) -> T:
        sums: shared(T[WARPS])
        with each(warp, sums) as w:
            s: T = in_warp(v)
            with one(thread, sums):
                sums[w] = s
        total: T @ thread[1] = sums[0]
        for k in unroll(range(1, WARPS)):
            total = op(total, sums[k])
        return intrinsic.broadcast(total)

    return block_reduce


# ---- scan -----------------------------------------------------------------------------------------------------------


def _scan(T, THREADS, in_warp, op):
    WARPS = THREADS // WARP

    @device(block, thread[THREADS])
    def block_scan(v: T @ thread[1]) -> T @ thread[1]:
        sums: shared(T[WARPS])
        w: int @ warp = id()
        upto: T @ thread[1] = in_warp(v)
        with each(warp, sums):
            s: T = intrinsic.shfl(upto, 31)
            with one(thread, sums):
                sums[w] = s
        before: T @ thread[1] = sums[0]
        for k in unroll(range(1, WARPS)):
            more: T @ thread[1] = op(before, sums[k])
            before = more if k < w else before
        all_upto: T @ thread[1] = op(before, upto)
        return all_upto if w > 0 else upto

    return block_scan


def _shifted(T, THREADS, upto, nothing):
    """Each thread's value for the next one."""

    @device(block, thread[THREADS])
    def block_scan_exclusive(v: T @ thread[1]) -> T @ thread[1]:
        cells: shared(T[THREADS])
        t: int @ thread[1] = id()
        mine: T @ thread[1] = upto(v)
        with each(thread, cells):
            cells[t] = mine
        return cells[t - 1] if t > 0 else T(nothing)

    return block_scan_exclusive


def _scan_items(T, THREADS, ITEMS, upto, op, EXCLUSIVE, nothing):
    @device(block, thread[THREADS])
    def block_scan_items(v: ref(T[ITEMS])) -> T:
        cells: shared(T[THREADS])
        t: int @ thread[1] = id()
        own: T @ thread[1] = v[0]
        for k in unroll(range(1, ITEMS)):
            own = op(own, v[k])
        mine: T @ thread[1] = upto(own)
        with each(thread, cells):
            cells[t] = mine
        before: T @ thread[1] = cells[t - 1] if t > 0 else T(nothing)
        for k in unroll(range(ITEMS)):
            more: T @ thread[1] = op(before, v[k])
            now: T @ thread[1] = more if t > 0 or k > 0 else v[k]  # without an identity the first item stands alone
            v[k], before = before if EXCLUSIVE else now, now
        return cells[THREADS - 1]

    return block_scan_items


# ---- load, store ----------------------------------------------------------------------------------------------------


def _load_items(T, THREADS, ITEMS, across, along):
    @device(block, thread[THREADS])
    def block_load(src: ptr(const(T)), start: i64, n: i64, fill: T, v: ref(T[ITEMS])):
        t: int @ thread[1] = id()
        if start + THREADS * ITEMS <= n:
            v = [src[start + (t * across + k * along)] for k in range(ITEMS)]
        else:
            v = [
                src[start + (t * across + k * along)] if start + (t * across + k * along) < n else fill
                for k in range(ITEMS)
            ]

    return block_load


def _load_vectorized(T, THREADS, ITEMS):
    WIDTH = widest(T, ITEMS)
    W, WORDS = word(T, WIDTH), ITEMS // WIDTH
    tail = _load_items(T, THREADS, ITEMS, ITEMS, 1)

    @device(block, thread[THREADS])
    def block_load_vectorized(src: ptr(const(T)), start: i64, n: i64, fill: T, v: ref(T[ITEMS])):
        t: int @ thread[1] = id()
        if start + THREADS * ITEMS <= n and start % WIDTH == 0:
            for k in unroll(range(WORDS)):
                v.view(W)[k] = src.view(W)[start / WIDTH + (t * WORDS + k)]
        else:
            tail(src, start, n, fill, v)

    return block_load_vectorized


def _load_transposed(T, THREADS, ITEMS):
    striped, turn = _load_items(T, THREADS, ITEMS, 1, THREADS), exchange(T, THREADS, ITEMS, STRIPED_TO_BLOCKED)

    @device(block, thread[THREADS])
    def block_load_transposed(src: ptr(const(T)), start: i64, n: i64, fill: T, v: ref(T[ITEMS])):
        striped(src, start, n, fill, v)
        turn(v)

    return block_load_transposed


def _store_items(T, THREADS, ITEMS, across, along):
    @device(block, thread[THREADS])
    def block_store(dst: ptr(T), start: i64, n: i64, v: ref(T[ITEMS])):
        with each(thread, dst) as t:
            if start + THREADS * ITEMS <= n:
                for k in unroll(range(ITEMS)):
                    dst[start + (t * across + k * along)] = v[k]
            else:
                for k in unroll(range(ITEMS)):
                    if start + (t * across + k * along) < n:
                        dst[start + (t * across + k * along)] = v[k]

    return block_store


def _store_vectorized(T, THREADS, ITEMS):
    WIDTH = widest(T, ITEMS)
    W, WORDS = word(T, WIDTH), ITEMS // WIDTH
    tail = _store_items(T, THREADS, ITEMS, ITEMS, 1)

    @device(block, thread[THREADS])
    def block_store_vectorized(dst: ptr(T), start: i64, n: i64, v: ref(T[ITEMS])):
        if start + THREADS * ITEMS <= n and start % WIDTH == 0:
            with each(thread, dst.view(W)) as t:
                for k in unroll(range(WORDS)):
                    dst[start / WIDTH + (t * WORDS + k)] = v.view(W)[k]
        else:
            tail(dst, start, n, v)

    return block_store_vectorized


def _store_transposed(T, THREADS, ITEMS):
    striped, turn = _store_items(T, THREADS, ITEMS, 1, THREADS), exchange(T, THREADS, ITEMS, BLOCKED_TO_STRIPED)

    @device(block, thread[THREADS])
    def block_store_transposed(dst: ptr(T), start: i64, n: i64, v: ref(T[ITEMS])):
        turn(v)
        striped(dst, start, n, v)

    return block_store_transposed
