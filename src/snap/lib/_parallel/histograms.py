"""`snap.lib.histogram`: how often each byte occurs.

Input:      an array of u8
Output:     256 counts, i64
Invariant:  the lanes of a warp count in different banks of shared memory, so that equal bytes do not wait for one
            another
Non-goals:  bins that are ranges
"""

from __future__ import annotations

import functools
from typing import Any

from snap import *
from snap._compiler.ir.types import I64, U8
from snap.lib._calls.arrays import argument
from snap.lib._calls.operators import word
from snap.lib._calls.public_types import AnyArray
from snap.lib._calls.recorded import launch, recorded

THREADS, WORDS = 512, 4
RESIDENT = 2048 // THREADS  # blocks a multiprocessor
COUNTERS = 32  # of each bin
FEW_WORDS, FEW_COUNTERS = 2, 16  # likewise, where that would be fewer blocks than half the multiprocessors


@recorded
def histogram(x: AnyArray) -> Any:
    """Count how often each value from 0 to 255 occurs in `x`, which has any shape."""
    given = argument("histogram", "x", x, (U8,), rows=True)
    out = given.new((256,), I64, zero=True)
    if given.size == 0:
        return out
    width = given.width()
    few = 2 * given.size < THREADS * WORDS * width * given.multiprocessors()
    in_flight, counters = (FEW_WORDS, FEW_COUNTERS) if few else (WORDS, COUNTERS)
    blocks = min(RESIDENT * given.multiprocessors(), -(-given.size // (THREADS * in_flight * width)))
    launch(histogram_kernel(width, U=in_flight, LANES=counters), blocks, given.array, out, given.size)
    return out


@functools.cache
def histogram_kernel(WIDTH, T=THREADS, U=WORDS, LANES=COUNTERS):
    W = word(u8, WIDTH)
    ROWS = 256 * LANES // T

    @kernel(threads=T, where=lambda x, counts, n: (len(x) >= n >= 0, len(counts) >= 256))
    def histogram(x: ptr(const(u8)), counts: ptr(i64), n: i64):
        blocks, words = count(block[1]), n / WIDTH
        rounds = words / (i64(blocks) * (T * U))
        with each(block) as b:
            bins, raw = shared(u32[256, LANES]), registers(u8[U, WIDTH])
            with each(thread, bins, shape=(..., LANES)) as (i, l):
                for k in unroll(range(ROWS)):
                    bins[k * (T // LANES) + i, l] = 0
            with each(thread) as t:
                l: int = t % LANES
                for r in range(rounds):
                    for u in unroll(range(U)):
                        raw.view(W)[u, 0] = x.view(W)[(r * blocks + b) * (T * U) + (u * T + t)]
                    for u, i in unroll(range(shape=(U, WIDTH))):
                        atomic.add(bins, (int(raw[u, i]), l), 1, scope="block")
                for j in range(rounds * blocks * (T * U) + (i64(b) * T + t), words, i64(blocks) * T):
                    raw.view(W)[0, 0] = x.view(W)[j]
                    for i in unroll(range(WIDTH)):
                        atomic.add(bins, (int(raw[0, i]), l), 1, scope="block")
                if b == 0 and words * WIDTH + t < n:
                    atomic.add(bins, (int(x[words * WIDTH + t]), l), 1, scope="block")
            with each(thread) as t:
                if t >= 256:
                    return
                total: u32 = 0
                for k in unroll(range(LANES)):
                    total += bins[t, (t + k) % LANES]
                if total > 0:
                    atomic.add(counts, t, i64(total))

    return histogram
