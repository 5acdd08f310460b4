"""Make device functions for the 32 threads of a warp: reduce, scan, broadcast, exchange, load, store.

Input:      factories: a type, sizes, an operator.  `total = warp.reduce(float, "max")` makes a device function; the
            same arguments, the same function.  `threads=2, 4, 8, 16`: a part of a warp reduces, scans or broadcasts
Output:     Snap device functions that require thread[32], or so many threads; what differs between lanes is at
            thread[1], what the group agrees on at thread[32]
Invariant:  no barrier is written; operators are applied in the order of lanes
Non-goals:  exchanges, loads and stores by less than a warp; shared memory of its own: only a block can declare it, so
            an exchange is lent a buffer
"""

from __future__ import annotations

from typing import Literal

from snap import *
from snap._compiler.ir.hardware import SHUFFLE_WIDTHS, WARP
from snap.api import SnapFunction
from snap.lib._calls.operators import Operator, cached_factory, operator
from snap.lib._calls.public_types import DType, Exchange, Movement, Operation
from snap.lib._parallel.items import OF_WARP, exchange_through, load_items, load_words, store_items, store_words

LOADS = ("direct", "striped", "vectorized", "transposed")
STRIPED_TO_BLOCKED: Literal["striped to blocked"] = "striped to blocked"
BLOCKED_TO_STRIPED: Literal["blocked to striped"] = "blocked to striped"


@cached_factory(records=True)
def reduce(dtype: DType, op: Operation = "add", identity: object = None, threads: int = WARP) -> SnapFunction:
    """f(v: T @ thread[1]) -> T @ thread[threads]: all values of the warp, or of its part, combined, in every lane."""
    combine, n = operator(op, dtype, identity), part_of_warp(threads)
    return _reduce_native(dtype, combine.warp, n) if combine.warp else _reduce_tree(dtype, combine.each, n)


@cached_factory(records=True)
def scan(
    dtype: DType, op: Operation = "add", exclusive: bool = False, identity: object = None, threads: int = WARP
) -> SnapFunction:
    """f(v: T @ thread[1]) -> T @ thread[1]: the values of this lane and all below it combined; exclusive: of those
    below.  Lanes of another part count for nothing where `threads` is less than a warp.
    """
    combine, n = operator(op, dtype, identity), part_of_warp(threads)
    if not exclusive:
        return _scan(dtype, combine.each, n)
    return _exclusive(dtype, scan(dtype, op, threads=n), with_identity(combine, op), n)


@cached_factory(records=True)
def broadcast(dtype: DType, threads: int = WARP) -> SnapFunction:
    """f(v: T @ thread[1], lane: int @ thread[threads]) -> T @ thread[threads]: the value of one lane of the warp, or of
    its part.
    """
    T, N = dtype, part_of_warp(threads)

    @device(thread[N])
    def warp_broadcast(v: T @ thread[1], lane: int) -> T:
        return intrinsic.shfl(v, lane)

    return warp_broadcast


@cached_factory
def exchange(dtype: DType, items: int, way: Exchange = STRIPED_TO_BLOCKED) -> SnapFunction:
    """f(v: ref(T[items]) @ thread[1], buffer: ptr(T) @ thread[32]): reorders 32*items values through a buffer of
    33*items elements.

    Striped: item k of lane l is number k*32 + l of the warp.  Blocked: it is number l*items + k.  One element in 33 of
    the buffer stays empty, so that lanes which are a power of two apart do not meet in one bank.
    """
    return exchange_through(OF_WARP, dtype, positive("items", items), from_striped(way))


@cached_factory
def load(dtype: DType, items: int, how: Movement = "striped") -> SnapFunction:
    """f(src: ptr(const(T)) @ thread[32], start: i64, n: i64, fill: T, v: ref(T[items]) @ thread[1]), the middle ones @
    thread[32].

    Elements start .. start + 32*items of src, which has n; what lies beyond is `fill`.  "direct" and "vectorized" give
    each lane consecutive elements, "striped" every 32nd; "vectorized" reads words of up to 16 bytes, for which src
    begins at a multiple of them. "transposed" takes a last argument, buffer: ptr(T) @ thread[32] of 33*items elements:
    it reads striped and gives consecutive ones.
    """
    T, ITEMS = dtype, checked_items(how, items)
    if how != "transposed":
        return load_words(OF_WARP, T, ITEMS) if how == "vectorized" else load_items(OF_WARP, T, ITEMS, how == "striped")
    striped, turn = load_items(OF_WARP, T, ITEMS, True), exchange(T, ITEMS, STRIPED_TO_BLOCKED)

    @device(warp)
    def warp_load_transposed(src: ptr(const(T)), start: i64, n: i64, fill: T, v: ref(T[ITEMS]), buffer: ptr(T)):
        striped(src, start, n, fill, v)
        turn(v, buffer)

    return warp_load_transposed


@cached_factory
def store(dtype: DType, items: int, how: Movement = "striped") -> SnapFunction:
    """f(dst: ptr(T) @ thread[32], start: i64 @ thread[32], n: i64 @ thread[32], v: ref(T[items]) @ thread[1]): the
    reverse of `load`.

    What lies beyond n is not written.  "transposed" takes a buffer as `load` does, and leaves v in the order of memory.
    """
    T, ITEMS = dtype, checked_items(how, items)
    if how != "transposed":
        return (
            store_words(OF_WARP, T, ITEMS) if how == "vectorized" else store_items(OF_WARP, T, ITEMS, how == "striped")
        )
    striped, turn = store_items(OF_WARP, T, ITEMS, True), exchange(T, ITEMS, BLOCKED_TO_STRIPED)

    @device(warp)
    def warp_store_transposed(dst: ptr(T), start: i64, n: i64, v: ref(T[ITEMS]), buffer: ptr(T)):
        turn(v, buffer)
        striped(dst, start, n, v)

    return warp_store_transposed


# ---- what the factories share with block.py -------------------------------------------------------------------------


def positive(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` is a positive integer, not {value!r}")
    return value


def part_of_warp(threads: object) -> int:
    if threads not in SHUFFLE_WIDTHS or isinstance(threads, bool):
        raise ValueError(f"`threads` is 32, a warp, or a part of one, 2, 4, 8 or 16, not {threads!r}")
    return threads


def checked_items(how: object, items: object) -> int:
    if how not in LOADS:
        raise ValueError(f"`how` is one of {', '.join(LOADS)}, not {how!r}")
    return positive("items", items)


def from_striped(way: object) -> bool:
    if way not in (STRIPED_TO_BLOCKED, BLOCKED_TO_STRIPED):
        raise ValueError(f"`way` is {STRIPED_TO_BLOCKED!r} or {BLOCKED_TO_STRIPED!r}, not {way!r}")
    return way == STRIPED_TO_BLOCKED


def with_identity(combine: Operator, op: object) -> object:
    if combine.identity is None:
        raise ValueError(f"an exclusive scan begins with the operator's identity: give `identity=` beside {op!r}")
    return combine.identity


# ---- reduce, scan ---------------------------------------------------------------------------------------------------


def _reduce_tree(T, op, N):
    STEPS = N.bit_length() - 1

    @device(thread[N])
    def warp_reduce(v: T @ thread[1]) -> T:
        for step in unroll(range(STEPS)):  # lane 0 combines neighbors, then pairs of neighbors: their order is kept
            v = op(v, intrinsic.shfl_down(v, 1 << step))
        return intrinsic.shfl(v, 0)

    return warp_reduce


def _reduce_native(T, name, N):
    of_lanes = getattr(intrinsic, f"reduce_{name}")

    @device(thread[N])
    def warp_reduce(v: T @ thread[1]) -> T:
        return of_lanes(v)

    return warp_reduce


def _scan(T, op, N):
    STEPS = N.bit_length() - 1

    @device(thread[N])
    def warp_scan(v: T @ thread[1]) -> T @ thread[1]:
        l: int @ thread[1] = id()
        for step in unroll(range(STEPS)):
            both = op(intrinsic.shfl_up(v, 1 << step), v)
            v = both if l >= 1 << step else v
        return v

    return warp_scan


def _exclusive(T, inclusive, nothing, N):
    @device(thread[N])
    def warp_scan_exclusive(v: T @ thread[1]) -> T @ thread[1]:
        l: int @ thread[1] = id()
        below = intrinsic.shfl_up(inclusive(v), 1)
        return below if l > 0 else T(nothing)

    return warp_scan_exclusive
