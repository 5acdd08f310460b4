"""Look-back: what the tiles before this one add up to, while other blocks are still at work on them.

Input:      status words in global memory, zero at first
Output:     device functions: `publish` tells a tile's own total to all; `glance` looks, without waiting, whether a
            tile's total is there; `gather` waits for those of 32 tiles, one a lane, and combines them in order
Invariant:  status words are touched by atomics only, so nothing but themselves orders them; a total and the word that
            it is there arrive together: in one word where it has 32 bits, else by release and acquire.  It depends on
            the tile's own elements only: nobody waits for a chain of others
Non-goals:  dealing out tiles.  One that is waited for must belong to a block that runs, and that publishes it before it
            waits for this one
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.types import Scalar
from snap.lib._calls.operators import element
from snap.lib.warp import reduce as warp_reduce


def words(type: Scalar, tiles: int) -> int:
    """Return how many status words (i64) are needed."""
    return tiles if type.bits == 32 else 2 * tiles


@functools.cache
def look_back(type: Scalar, op, nothing):
    """publish(status, tile, total), glance(status, tile, end, value) -> there, gather(status, tile, there, value) ->
    all of the warp's combined.

    Tiles from `end` on count as nothing, and as there.
    """
    A = element(type)
    in_warp = warp_reduce(type, op, None if isinstance(op, str) else nothing)
    publish, peek = _one_word(A) if type.bits == 32 else _two_words(A)
    WORDS = words(type, 1)

    @device(thread)
    def glance(status: ptr(i64) @ grid[1], tile: int, end: int, value: ref(A[1])) -> bool:
        value[0] = A(nothing)
        return peek(status, tile, value) if tile < end else True

    @device(warp, where=lambda status, tile, there: there or 0 <= WORDS * tile <= len(status) - WORDS)
    def gather(status: ptr(i64) @ grid[1], tile: int @ thread[1], there: bool @ thread[1], value: ref(A[1])) -> A:
        while not intrinsic.all(there):
            with each(thread):  # only what is missing is read again: many warps look at the same words
                if not there:
                    there = peek(status, tile, value)
        return in_warp(value[0])

    return publish, glance, gather


# `peek` tells whether a tile's total is there, and if so, the total.


def _one_word(A):
    THERE = 1 << 32

    @device(thread)
    def publish(status: ptr(i64) @ grid[1], tile: int, total: A):
        atomic.store(status, i64(tile), i64(THERE) | i64(intrinsic.bitcast(total, u32)))

    @device(thread)
    def peek(status: ptr(i64) @ grid[1], tile: int, value: ref(A[1])) -> bool:
        word: i64 = atomic.load(status, i64(tile))
        value[0] = intrinsic.bitcast(u32(word), A)
        return word != 0

    return publish, peek


def _two_words(A):
    @device(thread)
    def publish(status: ptr(i64) @ grid[1], tile: int, total: A):
        atomic.store(status, i64(tile) * 2 + 1, intrinsic.bitcast(total, i64))
        atomic.store(status, i64(tile) * 2, i64(1), order="release")

    @device(thread)
    def peek(status: ptr(i64) @ grid[1], tile: int, value: ref(A[1])) -> bool:
        there: bool = atomic.load(status, i64(tile) * 2, order="acquire") != 0
        if there:
            value[0] = intrinsic.bitcast(atomic.load(status, i64(tile) * 2 + 1), A)
        return there

    return publish, peek
