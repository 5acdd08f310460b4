"""Decoupled look-back: what the tiles before this one add up to, while they are still at work.

Input:      status words in global memory, zero at first: the ticket that numbers tiles, then what is known of each tile: nothing yet, its own
            total, or the total of all up to and with it
Output:     device functions of one warp: `look_back` tells what comes before a tile, and publishes the tile's own totals
Invariant:  status words are touched by atomics only, so nothing but themselves orders them; a value and its state arrive together: in one
            word where the value has 32 bits, else by release and acquire
Non-goals:  handing out tiles.  Those below must have been begun by running blocks: `atomic.add(status, 0, 1)` numbers them in that order
"""

from __future__ import annotations

import functools

from snap import *
from snap.ir.types import Scalar
from snap.lib.operators import element, operator
from snap.lib.warp import reduce as warp_reduce

OWN, UPTO = 1, 2  # states: the tile's own total is known; the total of everything up to and with it


def words(type: Scalar, tiles: int) -> int:
    """How many status words (i64) there are to be."""
    return 1 + (tiles if type.bits <= 32 else 3 * tiles)


@functools.cache
def look_back(type: Scalar, op, nothing):
    """f(status, tile, total) -> what all tiles before this one add up to.  32 tiles are looked at at a time, one a lane."""
    A = element(type)
    combine, in_warp = operator(op, type, nothing).each, warp_reduce(type, op, None if isinstance(op, str) else nothing)
    publish, peek = _one_word(A, nothing) if type.bits == 32 else _three_words(A, nothing)

    @device
    @requires(thread[32])
    def look_back(status: ptr(i64) @ grid[1], tile: int @ thread[32], total: A @ thread[32]) -> A @ thread[32]:
        l: int @ thread[1] = id()
        before: A @ thread[1] = A(nothing)
        publish(status, tile, OWN if tile > 0 else UPTO, total)
        if tile > 0:
            first: int = tile - 32  # of the tiles that are looked at
            go: bool = True
            while go:
                value: A[1] @ thread[1]
                state: int @ thread[1] = peek(status, first + l, value)
                while intrinsic.any(state == 0):
                    with group(thread[1]):  # only what is missing is read again: many warps look at the same words
                        if state == 0:
                            state = peek(status, first + l, value)
                known: u32 = intrinsic.ballot(state == UPTO)
                nearest: int = 0 if known == 0 else 31 - clz(known)
                window: A = in_warp(value[0] if l >= nearest else A(nothing))
                before = combine(window, before)
                go = known == 0
                first -= 32
            upto: A @ thread[1] = combine(before, total)
            publish(status, tile, UPTO, intrinsic.shfl(upto, 0))
        return intrinsic.shfl(before, 0)

    return look_back


# `peek` tells what is known of a tile, and the value that belongs to it; before the first tile everything is known, and it is nothing.


def _one_word(A, nothing):
    @device
    @requires(thread[32])
    def publish(status: ptr(i64) @ grid[1], tile: int @ thread[32], state: int @ thread[32], value: A @ thread[32]):
        match split(thread):
            case 1:
                atomic.store(status, i64(tile) + 1, i64(state) << 32 | i64(intrinsic.bitcast(value, u32)))

    @device
    @requires(thread[1])
    def peek(status: ptr(i64) @ grid[1], tile: int @ thread[1], value: ref(A[1]) @ thread[1]) -> int @ thread[1]:
        word: i64 = i64(UPTO) << 32 | i64(intrinsic.bitcast(A(nothing), u32))
        if tile >= 0:
            word = atomic.load(status, i64(tile) + 1)
        value[0] = intrinsic.bitcast(u32(word), A)
        return int(word >> 32)

    return publish, peek


def _three_words(A, nothing):
    """State, own total, total up to here: a reader that saw the state sees the value that belongs to it."""

    @device
    @requires(thread[32])
    def publish(status: ptr(i64) @ grid[1], tile: int @ thread[32], state: int @ thread[32], value: A @ thread[32]):
        match split(thread):
            case 1:
                atomic.store(status, i64(tile) * 3 + 1 + state, intrinsic.bitcast(value, i64))
                atomic.store(status, i64(tile) * 3 + 1, i64(state), order="release")

    @device
    @requires(thread[1])
    def peek(status: ptr(i64) @ grid[1], tile: int @ thread[1], value: ref(A[1]) @ thread[1]) -> int @ thread[1]:
        state: int = UPTO
        value[0] = A(nothing)
        if tile >= 0:
            state = int(atomic.load(status, i64(tile) * 3 + 1, order="acquire"))
            if state > 0:
                value[0] = intrinsic.bitcast(atomic.load(status, i64(tile) * 3 + 1 + state), A)
        return state

    return publish, peek
