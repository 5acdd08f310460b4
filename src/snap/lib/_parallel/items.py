"""Move items between global memory and registers, and between the threads of a group: what warps and blocks do alike.

Input:      who calls (a warp, or a block of whole warps), a type, how many items a thread has, and how they lie
Output:     device functions of that group: loads, stores, and an exchange through a buffer that it is lent
Invariant:  what lies beyond the end is neither read nor written; an index is computed once for both paths
Non-goals:  memory of their own, which only a block can declare (warp.py, block.py)
"""

from __future__ import annotations

from snap import *
from snap.lib._calls.operators import widest, word

OF_WARP, OF_BLOCK = (warp,), (block, warp)  # a block has as many warps as call


@inline
def place(t, k, threads, items, striped):
    """The place of item k of thread t: striped, every `threads`-th is its own, else consecutive ones are."""
    return t + k * threads if striped else t * items + k


def load_items(unit, T, ITEMS, STRIPED):
    @device(*unit)
    def load(src: ptr(const(T)), start: i64, n: i64, fill: T, v: ref(T[ITEMS])):
        threads: constexpr(int) = count(thread)
        t: int @ thread[1] = id()
        if start + threads * ITEMS <= n:
            v = [src[start + place(t, k, threads, ITEMS, STRIPED)] for k in range(ITEMS)]
        else:
            for k in unroll(range(ITEMS)):
                at: i64 @ thread[1] = start + place(t, k, threads, ITEMS, STRIPED)
                v[k] = src[at] if at < n else fill

    return load


def load_words(unit, T, ITEMS):
    WIDTH = widest(T, ITEMS)
    W, WORDS = word(T, WIDTH), ITEMS // WIDTH
    tail = load_items(unit, T, ITEMS, False)

    @device(*unit)
    def load_vectorized(src: ptr(const(T)), start: i64, n: i64, fill: T, v: ref(T[ITEMS])):
        t: int @ thread[1] = id()
        if start + count(thread) * ITEMS <= n and start % WIDTH == 0:
            for k in unroll(range(WORDS)):
                v.view(W)[k] = src.view(W)[start / WIDTH + (t * WORDS + k)]
        else:
            tail(src, start, n, fill, v)

    return load_vectorized


def store_items(unit, T, ITEMS, STRIPED):
    @device(*unit)
    def store(dst: ptr(T), start: i64, n: i64, v: ref(T[ITEMS])):
        threads: constexpr(int) = count(thread)
        with each(thread, dst) as t:
            if start + threads * ITEMS <= n:
                for k in unroll(range(ITEMS)):
                    dst[start + place(t, k, threads, ITEMS, STRIPED)] = v[k]
            else:
                for k in unroll(range(ITEMS)):
                    at: i64 = start + place(t, k, threads, ITEMS, STRIPED)
                    if at < n:
                        dst[at] = v[k]

    return store


def store_words(unit, T, ITEMS):
    WIDTH = widest(T, ITEMS)
    W, WORDS = word(T, WIDTH), ITEMS // WIDTH
    tail = store_items(unit, T, ITEMS, False)

    @device(*unit)
    def store_vectorized(dst: ptr(T), start: i64, n: i64, v: ref(T[ITEMS])):
        if start + count(thread) * ITEMS <= n and start % WIDTH == 0:
            with each(thread, dst.view(W)) as t:
                for k in unroll(range(WORDS)):
                    dst[start / WIDTH + (t * WORDS + k)] = v.view(W)[k]
        else:
            tail(dst, start, n, v)

    return store_vectorized


def exchange_through(unit, T, ITEMS, FROM_STRIPED):
    """One element in 33 of the buffer stays empty: threads a power of two apart do not meet in one bank."""

    @device(*unit)
    def exchange(v: ref(T[ITEMS]), buffer: ptr(T)):
        threads: constexpr(int) = count(thread)
        with each(thread, buffer) as t:
            for k in unroll(range(ITEMS)):
                to: int = place(t, k, threads, ITEMS, FROM_STRIPED)
                buffer[to + to / 32] = v[k]
        with each(thread) as t:
            for k in unroll(range(ITEMS)):
                at: int = place(t, k, threads, ITEMS, not FROM_STRIPED)
                v[k] = buffer[at + at / 32]

    return exchange
