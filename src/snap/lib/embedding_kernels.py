"""The kernels of `snap.lib.embedding` and its gradient.

Input:      tokens of I, rows of E; arithmetic is f32
Output:     kernels: rows looked up; tokens counted; the places of each row's tokens in order; rows added up, in that
            order
            or by atomics; the gradient of positions
Invariant:  the order of places is that of tokens, so sums repeat
Non-goals:  choosing among them (embeddings.py)
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib.layer_arrays import loader, storer
from snap.lib.operators import element

LOOKUP_THREADS = CAST_THREADS = 256
ORDER_THREADS = 128
ORDER_ROWS = 32  # of the table a warp puts in order, one a lane
ORDER_WORDS = 8  # tokens a lane has in flight
GATHER_WARPS = 8
LONG = 64  # more places than these are added up by a whole block


@functools.cache
def lookup_kernel(type, index, result, counted, WIDTH, PLACED, T=LOOKUP_THREADS):
    """`counted`: integers that hold the number of all words."""
    J, E, I, R = element(counted), element(type), element(index), element(result)
    load, store = loader(type, WIDTH), storer(result, WIDTH)

    @kernel(threads=T)
    def embedding(
        tokens: ptr(const(I)),
        table: ptr(const(E)),
        positions: ptr(const(E)),
        out: ptr(R),
        n: int,
        last: int,
        rows: int,
        N: int,
    ):
        threads: int = count(thread[1])
        words: int = N / WIDTH
        with each(thread, out, disjoint=out) as t:
            v: float[WIDTH]
            for j in unroll(range(J(t), J(n) * words, threads), 4):
                place: int = int(j / words)
                column: int = int(j % words)
                token: I = tokens[place]
                assert token >= 0 and token < rows, "a token of `embedding` is outside of the table"
                load(table, i64(token) * words + column, v)
                if PLACED:
                    w: float[WIDTH]
                    load(positions, i64(place % last) * words + column, w)
                    for i in unroll(range(WIDTH)):
                        v[i] += w[i]
                store(out, i64(j), v)

    return embedding


@functools.cache
def counting_kernel(index, T=LOOKUP_THREADS):
    I = element(index)

    @kernel(threads=T)
    def count_tokens(tokens: ptr(const(I)), counts: ptr(int), n: int, rows: int):
        threads: int = count(thread[1])
        with each(thread) as t:
            for j in range(i64(t), i64(n), threads):
                token: I = tokens[j]
                assert token >= 0 and token < rows, "a token of `embedding_gradient` is outside of the table"
                atomic.add(counts, int(token), 1)

    return count_tokens


@functools.cache
def ordering_kernel(index, T=ORDER_THREADS, U=ORDER_WORDS):
    """A warp goes through all tokens, in order, and writes down the places of those of its 32 rows: lane l holds where
    the next place of row l goes.
    """
    I = element(index)

    @kernel(threads=T)
    def order_tokens(tokens: ptr(const(I)), starts: ptr(const(int)), order: ptr(int), n: int, rows: int):
        with each(warp, order, disjoint=order) as w:
            l: int @ thread[1] = id()
            below: u32 @ thread[1] = (u32(1) << u32(l)) - u32(1)
            base: int = w * 32
            to: int @ thread[1] = starts[base + l] if base + l < rows else 0
            seen: int[U] @ thread[1]
            for i in range(i64(0), i64(n), 32 * U):
                with each(thread):
                    for u in unroll(range(U)):
                        seen[u] = -1
                        if i + (u * 32 + l) < n:
                            seen[u] = int(tokens[i + (u * 32 + l)]) - base
                for u in unroll(range(U)):
                    left: u32 = intrinsic.ballot(seen[u] >= 0 and seen[u] < 32)
                    while left != 0:
                        row: int = intrinsic.shfl(seen[u], ffs(left) - 1)
                        same: u32 = intrinsic.ballot(seen[u] == row)
                        at: int = intrinsic.shfl(to, row)
                        with each(thread, order, disjoint=order):
                            if seen[u] == row:
                                order[at + popc(same & below)] = int(i) + (u * 32 + l)
                        to = to + popc(same) if l == row else to
                        left = left & ~same

    return order_tokens


@functools.cache
def gathering_kernel(type, result, WIDTH, WARPS=GATHER_WARPS, U=4, LIMIT=LONG):
    """A warp adds up 32 words of a row's places.  Where there are many places, all warps of its block do, and the first
    one adds up what they have.
    """
    E, R, T, COLUMNS = element(type), element(result), 32 * WARPS, 32 * WIDTH
    load, store = loader(type, WIDTH), storer(result, WIDTH)

    @device(thread)
    def add(
        grad: ptr(const(E)),
        order: ptr(const(int)),
        begin: int,
        end: int,
        by: int,
        words: int,
        j: int,
        total: ref(float[WIDTH]),
    ):
        v: float[WIDTH]
        for i in unroll(range(WIDTH)):
            total[i] = 0.0
        for p in unroll(range(begin, end, by), U):
            load(grad, i64(order[p]) * words + j, v)
            for i in unroll(range(WIDTH)):
                total[i] += v[i]

    @kernel(threads=T)
    def gather(
        grad: ptr(const(E)),
        counts: ptr(const(int)),
        starts: ptr(const(int)),
        order: ptr(const(int)),
        dtable: ptr(R),
        rows: int,
        N: int,
        chunks: int,
    ):
        words: int = N / WIDTH
        with each(block, dtable, disjoint=dtable) as b:
            sums: shared(float[WARPS, COLUMNS])
            l: int @ thread[1] = id() % 32
            with each(warp, dtable, disjoint=dtable) as w:
                unit: i64 = i64(b) * WARPS + w
                row: int = int(unit / chunks)
                with each(thread, dtable, disjoint=dtable):
                    j: int = int(unit - i64(row) * chunks) * 32 + l
                    if row < rows and j < words:
                        if counts[row] <= LIMIT:
                            total: float[WIDTH]
                            add(grad, order, starts[row], starts[row] + counts[row], 1, words, j, total)
                            store(dtable, i64(row) * words + j, total)
            for q in range(WARPS):
                of: i64 = i64(b) * WARPS + q
                long: int = int(of / chunks)
                if long < rows:
                    places: int = counts[long]
                    if places > LIMIT:
                        column: int @ thread[1] = int(of - i64(long) * chunks) * 32 + l
                        with each(warp, sums) as w:
                            with each(thread, sums):
                                if column < words:
                                    some: float[WIDTH]
                                    add(
                                        grad, order, starts[long] + w, starts[long] + places, WARPS, words, column, some
                                    )
                                    for i in unroll(range(WIDTH)):
                                        sums[w, l * WIDTH + i] = some[i]
                        with each(thread, dtable, disjoint=dtable) as t:
                            if t < 32 and column < words:
                                all: float[WIDTH]
                                for i in unroll(range(WIDTH)):
                                    all[i] = 0.0
                                    for k in unroll(range(WARPS)):
                                        all[i] += sums[k, l * WIDTH + i]
                                store(dtable, i64(long) * words + column, all)

    return gather


@functools.cache
def adding_kernel(type, index, counted, WIDTH, WIDE, T=LOOKUP_THREADS):
    """WIDE: 4 elements are added by one atomic."""
    J, E, I, PIECES = element(counted), element(type), element(index), WIDTH // 4
    load = loader(type, WIDTH)

    @kernel(threads=T)
    def add_rows(grad: ptr(const(E)), tokens: ptr(const(I)), sums: ptr(float), n: int, rows: int, N: int):
        threads: int = count(thread[1])
        words: int = N / WIDTH
        with each(thread) as t:
            v: float[WIDTH]
            for j in range(J(t), J(n) * words, threads):
                place: int = int(j / words)
                token: I = tokens[place]
                assert token >= 0 and token < rows, "a token of `embedding_gradient` is outside of the table"
                load(grad, i64(j), v)
                to: i64 = i64(token) * words + int(j % words)
                if WIDE == 4:
                    for p in unroll(range(PIECES)):
                        four: float4 = float4(v[4 * p], v[4 * p + 1], v[4 * p + 2], v[4 * p + 3])
                        atomic.add(sums.view(float4), to * PIECES + p, four)
                else:
                    for i in unroll(range(WIDTH)):
                        atomic.add(sums, to * WIDTH + i, v[i])

    return add_rows


@functools.cache
def positions_kernel(type, result, WIDTH, T=LOOKUP_THREADS):
    E, R = element(type), element(result)
    load, store = loader(type, WIDTH), storer(result, WIDTH)

    @kernel(threads=T)
    def add_positions(grad: ptr(const(E)), out: ptr(R), batch: int, length: int, places: int, N: int):
        threads: int = count(thread[1])
        words: int = N / WIDTH
        with each(thread, out, disjoint=out) as t:
            v: float[WIDTH]
            for j in range(i64(t), i64(places) * words, threads):
                total: float[WIDTH]
                for i in unroll(range(WIDTH)):
                    total[i] = 0.0
                if j < i64(length) * words:
                    for b in unroll(range(batch), 4):
                        load(grad, i64(b) * length * words + j, v)
                        for i in unroll(range(WIDTH)):
                            total[i] += v[i]
                store(out, j, total)

    return add_positions


@functools.cache
def cast_kernel(type, result, WIDTH=4, T=CAST_THREADS):
    E, R = element(type), element(result)
    load, store, load_one, store_one = loader(type, WIDTH), storer(result, WIDTH), loader(type, 1), storer(result, 1)

    @kernel(threads=T)
    def cast(x: ptr(const(E)), out: ptr(R), n: i64):
        threads: int = count(thread[1])
        words: i64 = n / WIDTH
        with each(thread, out, disjoint=out) as t:
            v: float[WIDTH]
            w: float[1]
            for j in unroll(range(i64(t), words, threads), 4):
                load(x, j, v)
                store(out, j, v)
            if words * WIDTH + t < n:
                load_one(x, words * WIDTH + t, w)
                store_one(out, words * WIDTH + t, w)

    return cast
